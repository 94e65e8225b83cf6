// Bindings of the exact coders: chunks near a base of the same type, and chunks alone.
#include "bind/bind.hpp"
#include "exact/planes.hpp"
#include "exact/residual.hpp"

namespace nb = nanobind;

namespace mvcs {

namespace {

using Input = Array<const std::uint8_t>;
using Output = Array<std::uint8_t>;

auto encode_residual_array(const Input& content, const Input& base, std::size_t width, bool floating) {
    return as_array(unlocked([&] { return encode_residual(view(content), view(base), width, floating); }));
}

void decode_residual_array(const Input& payload, const Input& base, std::size_t width, bool floating,
                           const Output& out) {
    unlocked([&] { decode_residual(view(payload), view(base), width, floating, view(out)); });
}

auto encode_planes_array(const Input& content, std::size_t width, bool floating) {
    return as_array(unlocked([&] { return encode_planes(view(content), width, floating); }));
}

void decode_planes_array(const Input& payload, std::size_t width, bool floating, const Output& out) {
    unlocked([&] { decode_planes(view(payload), width, floating, view(out)); });
}

}  // namespace

void bind_exact(nb::module_& module) {
    using namespace nb::literals;
    module.def("encode_residual", &encode_residual_array, nb::arg("content").noconvert(), nb::arg("base").noconvert(),
               "width"_a, "floating"_a);
    module.def("decode_residual", &decode_residual_array, nb::arg("payload").noconvert(), nb::arg("base").noconvert(),
               "width"_a, "floating"_a, nb::arg("out").noconvert());
    module.def("encode_planes", &encode_planes_array, nb::arg("content").noconvert(), "width"_a, "floating"_a);
    module.def("decode_planes", &decode_planes_array, nb::arg("payload").noconvert(), "width"_a, "floating"_a,
               nb::arg("out").noconvert());
}

}  // namespace mvcs
