// Calls kernels as a file says and writes what they answer: `driver CALLS ANSWERS`. `calls.py` writes the one file and
// reads the other, so that kernels of another machine are compared with those here.
//
// A call: a byte and the kernel's name; a byte, and so many arguments: 'a', eight bytes of size and an array, or 'i' or
// 'f' and eight bytes of a number. An answer: a byte, 1 where the kernel refuses; the result and then each array
// afterwards, with eight bytes of size.
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <type_traits>

#include "channels/uniform.hpp"
#include "codebook/assign.hpp"
#include "codebook/kmeans.hpp"
#include "codebook/sketch.hpp"
#include "exact/planes.hpp"
#include "exact/residual.hpp"
#include "groups/groups.hpp"
#include "lattice/balance.hpp"
#include "lattice/loglattice.hpp"
#include "lattice/measure.hpp"
#include "lattice/pace.hpp"
#include "lattice/rootlattice.hpp"
#include "moves/rans_moves.hpp"
#include "thin/spectrum.hpp"
#include "thin/thin.hpp"

namespace {

using Buffer = std::vector<std::byte>;

template <class Type>
Type read(std::istream& in) {
    Type value{};
    in.read(reinterpret_cast<char*>(&value), sizeof value);
    return value;
}

void write(std::ostream& out, const void* data, std::uint64_t size) {
    out.write(reinterpret_cast<const char*>(&size), sizeof size);
    out.write(static_cast<const char*>(data), static_cast<std::streamsize>(size));
}

template <class Type>
inline constexpr bool is_span = false;
template <class Element>
inline constexpr bool is_span<std::span<Element>> = true;

template <class Type>
inline constexpr bool is_matrix = false;
template <class Element>
inline constexpr bool is_matrix<mvcs::Matrix<Element>> = true;

// The arguments of a call, taken in their order.
class Arguments {
  public:
    explicit Arguments(std::istream& in) {
        for (int left = read<std::uint8_t>(in); left > 0; --left) {
            const auto kind = read<char>(in);
            const auto eight = read<std::uint64_t>(in);
            if (kind == 'a') {
                arrays_.emplace_back(eight);
                in.read(reinterpret_cast<char*>(arrays_.back().data()), static_cast<std::streamsize>(eight));
            } else {
                numbers_.push_back(kind == 'f' ? std::bit_cast<double>(eight) : static_cast<double>(eight));
            }
        }
    }

    template <class Type>
    Type take() {
        if constexpr (std::is_arithmetic_v<Type>) {
            return static_cast<Type>(numbers_.at(next_number_++));
        } else if constexpr (is_span<Type>) {
            using Element = typename Type::element_type;
            Buffer& buffer = arrays_.at(next_array_++);
            return {reinterpret_cast<Element*>(buffer.data()), buffer.size() / sizeof(Element)};
        } else if constexpr (is_matrix<Type>) {
            return {take<decltype(Type::values)>(), take<std::size_t>()};
        } else if constexpr (std::is_same_v<Type, mvcs::Members>) {
            return mvcs::Members(take<std::span<const std::uint64_t>>());
        } else if constexpr (std::is_same_v<Type, mvcs::UniformCoding>) {
            return {take<std::size_t>(), take<unsigned>()};
        } else if constexpr (std::is_same_v<Type, mvcs::SketchView>) {
            using Patterns = std::span<std::uint32_t>;
            return {take<std::span<std::uint64_t>>(), take<Patterns>(), take<Patterns>()};
        } else {
            static_assert(std::is_same_v<Type, mvcs::LogGrid>);
            using Offsets = std::span<const std::int16_t>;
            return {take<unsigned>(), take<Offsets>(), take<Offsets>(), take<std::size_t>(), take<std::size_t>()};
        }
    }

    const std::vector<Buffer>& arrays() const { return arrays_; }

  private:
    std::vector<Buffer> arrays_;
    std::vector<double> numbers_;
    std::size_t next_array_ = 0;
    std::size_t next_number_ = 0;
};

template <class Result>
Buffer as_buffer(const Result& result) {
    const auto of = [](const void* data, std::size_t size) {
        const auto* const bytes = static_cast<const std::byte*>(data);
        return Buffer(bytes, bytes + size);
    };
    if constexpr (std::is_trivially_copyable_v<Result>) {
        return of(&result, sizeof result);
    } else {
        return of(result.data(), result.size() * sizeof(typename Result::value_type));
    }
}

using Kernel = std::function<Buffer(Arguments&)>;

template <class Result, class... Parameters>
Kernel kernel(Result (*call)(Parameters...)) {
    return [call](Arguments& arguments) {
        std::tuple<std::decay_t<Parameters>...> taken{arguments.take<std::decay_t<Parameters>>()...};
        if constexpr (std::is_void_v<Result>) {
            std::apply(call, taken);
            return Buffer();
        } else {
            return as_buffer(std::apply(call, taken));
        }
    };
}

using Integers = std::span<std::int64_t>;

// Rows alone have offsets.
void log_sums(std::span<const float> values, unsigned scale, std::span<const std::int16_t> rows, std::size_t columns,
              std::size_t start, bool by_column, Integers sums, Integers counts) {
    mvcs::log_sums(values, {scale, rows, {}, columns, start}, by_column, sums, counts);
}

#define KERNEL(name) {#name, kernel(&mvcs::name)}

const std::map<std::string, Kernel> kernels{
    KERNEL(assign),          KERNEL(balance),           KERNEL(decode_codes),     KERNEL(decode_delta),
    KERNEL(decode_planes),   KERNEL(decode_rans_codes), KERNEL(decode_rans_moves), KERNEL(decode_residual),
    KERNEL(encode_codes),    KERNEL(encode_delta),      KERNEL(encode_planes),    KERNEL(encode_rans_codes),
    KERNEL(encode_rans_moves), KERNEL(encode_residual), KERNEL(error_sums),       KERNEL(keep_pace),
    KERNEL(kmeans),          KERNEL(lattice),           KERNEL(less_product),     KERNEL(log_lattice),
    KERNEL(log_unlattice),   KERNEL(progress_sums),     KERNEL(rescale),          KERNEL(root_lattice),
    KERNEL(root_signs),      KERNEL(root_sums),         KERNEL(root_unlattice),   KERNEL(sketch),
    KERNEL(spectrum),        KERNEL(times_columns),     KERNEL(times_rows),       KERNEL(unlattice),
    KERNEL(mark_largest),    KERNEL(pack_groups),       KERNEL(quantize_groups),  KERNEL(restore_groups),
    KERNEL(unpack_groups),   {"log_sums", kernel(&log_sums)},
};

void answer(std::istream& in, std::ostream& out) {
    std::string name(read<std::uint8_t>(in), ' ');
    in.read(name.data(), static_cast<std::streamsize>(name.size()));
    Arguments arguments(in);
    Buffer result;
    bool refused = false;
    try {
        result = kernels.at(name)(arguments);
    } catch (const mvcs::Invalid&) {
        refused = true;
    }
    out.put(static_cast<char>(refused));
    write(out, result.data(), result.size());
    for (const Buffer& array : arguments.arrays()) write(out, array.data(), array.size());
}

}  // namespace

int main(int count, char** words) {
    if (count != 3) return 2;
    std::ifstream in(words[1], std::ios::binary);
    std::ofstream out(words[2], std::ios::binary);
    while (in.peek() != std::ifstream::traits_type::eof()) answer(in, out);
    return in.bad() || !out.flush();
}
