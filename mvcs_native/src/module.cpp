// The bindings: buffers in, bytes out, the interpreter lock released around every kernel.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <memory>

#include "assign.hpp"
#include "groups.hpp"
#include "kmeans.hpp"
#include "sketch.hpp"

namespace nb = nanobind;

namespace {

template <class Element>
using Array = nb::ndarray<Element, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class Element>
std::span<Element> view(const Array<Element>& array) {
    return {array.data(), array.size()};
}

nb::bytes as_bytes(const std::vector<std::uint8_t>& bytes) { return nb::bytes(bytes.data(), bytes.size()); }

void sketch(const Array<const float>& values, const Array<std::uint64_t>& counts, const Array<std::uint32_t>& low,
            const Array<std::uint32_t>& high) {
    const nb::gil_scoped_release unlocked;
    mvcs::sketch(view(values), {view(counts), view(low), view(high)});
}

nb::ndarray<nb::numpy, std::uint32_t, nb::ndim<1>> kmeans(const Array<const double>& points,
                                                          const Array<const double>& weights, std::size_t k) {
    auto starts = std::make_unique<std::vector<std::uint32_t>>();
    {
        const nb::gil_scoped_release unlocked;
        *starts = mvcs::kmeans(view(points), view(weights), k);
    }
    const std::size_t size = starts->size();
    std::uint32_t* const data = starts->data();
    const nb::capsule owner(starts.release(), [](void* p) noexcept { delete static_cast<std::vector<std::uint32_t>*>(p); });
    return {data, {size}, owner};
}

void assign(const Array<const float>& values, const Array<const float>& bounds, const Array<std::uint8_t>& out) {
    const nb::gil_scoped_release unlocked;
    mvcs::assign(view(values), view(bounds), view(out));
}

nb::bytes encode_codes(const Array<const std::uint8_t>& codes, std::size_t levels) {
    std::vector<std::uint8_t> payload;
    {
        const nb::gil_scoped_release unlocked;
        payload = mvcs::encode_codes(view(codes), levels);
    }
    return as_bytes(payload);
}

void decode_codes(const Array<const std::uint8_t>& payload, std::size_t levels, const Array<std::uint8_t>& out) {
    const nb::gil_scoped_release unlocked;
    mvcs::decode_codes(view(payload), levels, view(out));
}

nb::bytes encode_delta(const Array<const std::uint8_t>& codes, const Array<const std::uint8_t>& base,
                       std::size_t levels) {
    std::vector<std::uint8_t> payload;
    {
        const nb::gil_scoped_release unlocked;
        payload = mvcs::encode_delta(view(codes), view(base), levels);
    }
    return as_bytes(payload);
}

void decode_delta(const Array<const std::uint8_t>& payload, const Array<const std::uint8_t>& base,
                  std::size_t levels, const Array<std::uint8_t>& out) {
    const nb::gil_scoped_release unlocked;
    mvcs::decode_delta(view(payload), view(base), levels, view(out));
}

}  // namespace

// noconvert: a converted copy of `out` would be filled and thrown away.
NB_MODULE(_core, module) {
    using namespace nb::literals;
    module.doc() = "Hot kernels of mvcs: sketch, k-means, assignment, and the coders of codes.";
    module.def("sketch", &sketch, nb::arg("values").noconvert(), nb::arg("counts").noconvert(),
               nb::arg("low").noconvert(), nb::arg("high").noconvert());
    module.def("kmeans", &kmeans, nb::arg("points").noconvert(), nb::arg("weights").noconvert(), "k"_a);
    module.def("assign", &assign, nb::arg("values").noconvert(), nb::arg("bounds").noconvert(),
               nb::arg("out").noconvert());
    module.def("encode_codes", &encode_codes, nb::arg("codes").noconvert(), "levels"_a);
    module.def("decode_codes", &decode_codes, nb::arg("payload").noconvert(), "levels"_a, nb::arg("out").noconvert());
    module.def("encode_delta", &encode_delta, nb::arg("codes").noconvert(), nb::arg("base").noconvert(), "levels"_a);
    module.def("decode_delta", &decode_delta, nb::arg("payload").noconvert(), nb::arg("base").noconvert(),
               "levels"_a, nb::arg("out").noconvert());
}
