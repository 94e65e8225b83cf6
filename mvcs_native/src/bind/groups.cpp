// Bindings of the published coder of codes: groups in run-length and Huffman code.
#include "bind/bind.hpp"
#include "groups/groups.hpp"

namespace nb = nanobind;

namespace mvcs {

namespace {

using Codes = Array<const std::uint8_t>;

nb::bytes encode_codes_array(const Codes& codes, std::size_t levels) {
    return as_bytes(unlocked([&] { return encode_codes(view(codes), levels); }));
}

void decode_codes_array(const Codes& payload, std::size_t levels, const Array<std::uint8_t>& out) {
    unlocked([&] { decode_codes(view(payload), levels, view(out)); });
}

nb::bytes encode_delta_array(const Codes& codes, const Codes& base, std::size_t levels) {
    return as_bytes(unlocked([&] { return encode_delta(view(codes), view(base), levels); }));
}

void decode_delta_array(const Codes& payload, const Codes& base, std::size_t levels, const Array<std::uint8_t>& out) {
    unlocked([&] { decode_delta(view(payload), view(base), levels, view(out)); });
}

}  // namespace

void bind_groups(nb::module_& module) {
    using namespace nb::literals;
    module.def("encode_codes", &encode_codes_array, nb::arg("codes").noconvert(), "levels"_a);
    module.def("decode_codes", &decode_codes_array, nb::arg("payload").noconvert(), "levels"_a,
               nb::arg("out").noconvert());
    module.def("encode_delta", &encode_delta_array, nb::arg("codes").noconvert(), nb::arg("base").noconvert(),
               "levels"_a);
    module.def("decode_delta", &decode_delta_array, nb::arg("payload").noconvert(), nb::arg("base").noconvert(),
               "levels"_a, nb::arg("out").noconvert());
}

}  // namespace mvcs
