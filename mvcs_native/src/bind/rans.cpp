// Bindings of the coder of codes in static rANS.
#include "bind/bind.hpp"
#include "moves/rans_moves.hpp"

namespace nb = nanobind;

namespace mvcs {

namespace {

using Buffer = Array<const std::uint8_t>;
using Counts64 = Array<const std::uint64_t>;

// Two step bytes a member, one after another.
std::vector<Steps> as_steps(Bytes bytes) {
    require(bytes.size() % 2 == 0, "steps are not in pairs");
    std::vector<Steps> steps;
    for (std::size_t i = 0; i < bytes.size(); i += 2) steps.push_back({bytes[i], bytes[i + 1]});
    return steps;
}

nb::bytes encode_codes_array(const Buffer& codes, std::size_t width, const Counts64& counts) {
    return as_bytes(unlocked([&] { return encode_rans_codes(view(codes), width, Members(view(counts))); }));
}

void decode_codes_array(const Buffer& payload, std::size_t width, const Counts64& counts,
                        const Array<std::uint8_t>& out) {
    unlocked([&] { decode_rans_codes(view(payload), width, Members(view(counts)), view(out)); });
}

nb::bytes encode_moves_array(const Buffer& codes, const Buffer& base, std::size_t width, const Counts64& counts,
                             const Buffer& steps) {
    return as_bytes(unlocked([&] {
        return encode_rans_moves(view(codes), view(base), width, Members(view(counts)), as_steps(view(steps)));
    }));
}

void decode_moves_array(const Buffer& payload, const Buffer& base, std::size_t width, const Counts64& counts,
                        const Array<std::uint8_t>& out) {
    unlocked([&] { decode_rans_moves(view(payload), view(base), width, Members(view(counts)), view(out)); });
}

void rescale_array(const Array<const std::int16_t>& codes, unsigned old_step, unsigned new_step,
                   const Array<std::int16_t>& out) {
    require(old_step < 256 && new_step < 256, "a step is not a byte");
    unlocked([&] {
        rescale(view(codes), static_cast<std::uint8_t>(old_step), static_cast<std::uint8_t>(new_step), view(out));
    });
}

}  // namespace

void bind_rans(nb::module_& module) {
    using namespace nb::literals;
    module.def("encode_rans_codes", &encode_codes_array, nb::arg("codes").noconvert(), "width"_a,
               nb::arg("counts").noconvert());
    module.def("decode_rans_codes", &decode_codes_array, nb::arg("payload").noconvert(), "width"_a,
               nb::arg("counts").noconvert(), nb::arg("out").noconvert());
    module.def("encode_rans_moves", &encode_moves_array, nb::arg("codes").noconvert(), nb::arg("base").noconvert(),
               "width"_a, nb::arg("counts").noconvert(), nb::arg("steps").noconvert());
    module.def("decode_rans_moves", &decode_moves_array, nb::arg("payload").noconvert(), nb::arg("base").noconvert(),
               "width"_a, nb::arg("counts").noconvert(), nb::arg("out").noconvert());
    module.def("rescale", &rescale_array, nb::arg("codes").noconvert(), "old_step"_a, "new_step"_a,
               nb::arg("out").noconvert());
}

}  // namespace mvcs
