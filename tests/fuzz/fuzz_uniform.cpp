// libFuzzer target: hostile groups never crash the decoders, and what quantizing restores is what decoding restores.
//
//     clang++ -std=c++20 -O1 -g -fsanitize=fuzzer,address,undefined -I mvcs_native/src tests/fuzz/fuzz_uniform.cpp
//
// With -DSTANDALONE and without `fuzzer` it needs no libFuzzer; see standalone.hpp.
#include <cstdlib>
#include <memory>
#include <vector>

#include "channels/uniform.hpp"

namespace {

using Floats = std::vector<float>;
using Scales = std::vector<std::uint16_t>;
using Buffer = std::vector<std::uint8_t>;
using Codes = std::vector<std::int8_t>;

void decode_hostile(const Scales& scales, const Buffer& packed, mvcs::UniformCoding coding) {
    try {
        Floats values(scales.size() * coding.width);
        mvcs::restore_groups(scales, packed, coding, values);
    } catch (const mvcs::Invalid&) {
    }
    try {
        Codes codes(scales.size() * coding.width);
        Buffer again(packed.size());
        mvcs::unpack_groups(packed, scales.size(), coding, codes);
        mvcs::pack_groups(codes, scales.size(), coding, again);
        if (again != packed) std::abort();
    } catch (const mvcs::Invalid&) {
    }
    try {
        Buffer again(packed.size());
        mvcs::pack_groups(Codes(scales.size() * coding.width, 3), scales.size(), coding, again);
    } catch (const mvcs::Invalid&) {
    }
}

void round_trip(const Floats& values, std::size_t groups, mvcs::UniformCoding coding, bool stochastic) {
    Scales scales(groups);
    Buffer packed(groups * mvcs::detail::packed_bytes(coding.width, coding.bits));
    Floats restored(values.size()), again(values.size());
    try {
        mvcs::quantize_groups(values, coding, stochastic, 7, scales, packed, restored);
    } catch (const mvcs::Invalid&) {
        return;
    }
    mvcs::restore_groups(scales, packed, coding, again);
    if (again != restored) std::abort();
    const auto marks = std::make_unique<bool[]>(values.size());
    if (coding.width == 0) return;
    mvcs::mark_largest(values, coding.width, (coding.width + 2) / 3, {marks.get(), values.size()});
    const auto marked = std::count(marks.get(), marks.get() + values.size(), true);
    if (static_cast<std::size_t>(marked) != groups * ((coding.width + 2) / 3)) std::abort();
}

}  // namespace

// Input: bits, the groups, their width in two bytes, a scale, then codes or values.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 6) return 0;
    const mvcs::UniformCoding coding{(data[2] | std::size_t{data[3]} << 8) % 1024, data[0] % 18U};
    const std::size_t groups = data[1] % 8;
    const Scales scales(groups, static_cast<std::uint16_t>(data[4] | data[5] << 8));
    Buffer packed(data + 6, data + size);
    decode_hostile(scales, packed, coding);
    if (coding.bits == 0 || coding.bits > 16) return 0;
    packed.resize(groups * mvcs::detail::packed_bytes(coding.width, coding.bits));
    decode_hostile(scales, packed, coding);

    Floats values(groups * coding.width);
    packed.resize(values.size() * sizeof(float), 0x3F);
    if (!values.empty()) std::memcpy(values.data(), packed.data(), packed.size());
    round_trip(values, groups, coding, data[1] >= 128 && coding.bits > 1);
    return 0;
}

#ifdef STANDALONE
#include <random>

// Every round has codes or values of its own, of scales that are mostly those of a quantizer.
void damage(long rounds) {
    std::mt19937 random(1);
    const auto below = [&](std::size_t limit) { return static_cast<std::uint8_t>(random() % limit); };
    for (long round = 0; round < rounds; ++round) {
        Buffer input{below(18), below(256), below(256), below(4), below(256), below(8) ? below(128) : below(256)};
        for (std::size_t left = random() % 600; left > 0; --left) input.push_back(below(round % 2 ? 256 : 8));
        LLVMFuzzerTestOneInput(input.data(), input.size());
    }
}

#include "standalone.hpp"
#endif
