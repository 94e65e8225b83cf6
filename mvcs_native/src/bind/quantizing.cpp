// Bindings of the kernels between floats and codes.
#include <memory>

#include "bind/bind.hpp"
#include "channels/uniform.hpp"
#include "codebook/assign.hpp"
#include "codebook/kmeans.hpp"
#include "codebook/sketch.hpp"

namespace nb = nanobind;

namespace mvcs {

namespace {

void sketch_array(const Array<const float>& values, const Array<std::uint64_t>& counts,
                  const Array<std::uint32_t>& low, const Array<std::uint32_t>& high) {
    unlocked([&] { sketch(view(values), {view(counts), view(low), view(high)}); });
}

nb::ndarray<nb::numpy, std::uint32_t, nb::ndim<1>> kmeans_arrays(const Array<const double>& points,
                                                                 const Array<const double>& weights, std::size_t k) {
    auto starts = std::make_unique<std::vector<std::uint32_t>>(
        unlocked([&] { return kmeans(view(points), view(weights), k); }));
    const std::size_t size = starts->size();
    std::uint32_t* const data = starts->data();
    const nb::capsule owner(starts.release(), [](void* p) noexcept { delete static_cast<std::vector<std::uint32_t>*>(p); });
    return {data, {size}, owner};
}

void assign_array(const Array<const float>& values, const Array<const float>& bounds, const Array<std::uint8_t>& out) {
    unlocked([&] { assign(view(values), view(bounds), view(out)); });
}

void quantize_groups_array(const Array<const float>& values, std::size_t width, unsigned bits, bool stochastic,
                           std::uint32_t seed, const Array<std::uint16_t>& scales, const Array<std::uint8_t>& packed,
                           const Array<float>& restored) {
    unlocked([&] {
        quantize_groups(view(values), {width, bits}, stochastic, seed, view(scales), view(packed), view(restored));
    });
}

void restore_groups_array(const Array<const std::uint16_t>& scales, const Array<const std::uint8_t>& packed,
                          std::size_t width, unsigned bits, const Array<float>& out) {
    unlocked([&] { restore_groups(view(scales), view(packed), {width, bits}, view(out)); });
}

void pack_groups_array(const Array<const std::int8_t>& codes, std::size_t groups, std::size_t width, unsigned bits,
                       const Array<std::uint8_t>& out) {
    unlocked([&] { pack_groups(view(codes), groups, {width, bits}, view(out)); });
}

void unpack_groups_array(const Array<const std::uint8_t>& packed, std::size_t groups, std::size_t width, unsigned bits,
                         const Array<std::int8_t>& out) {
    unlocked([&] { unpack_groups(view(packed), groups, {width, bits}, view(out)); });
}

void mark_largest_array(const Array<const float>& values, std::size_t width, std::size_t sent, const Array<bool>& out) {
    unlocked([&] { mark_largest(view(values), width, sent, view(out)); });
}

}  // namespace

void bind_quantizing(nb::module_& module) {
    using namespace nb::literals;
    module.def("sketch", &sketch_array, nb::arg("values").noconvert(), nb::arg("counts").noconvert(),
               nb::arg("low").noconvert(), nb::arg("high").noconvert());
    module.def("kmeans", &kmeans_arrays, nb::arg("points").noconvert(), nb::arg("weights").noconvert(), "k"_a);
    module.def("assign", &assign_array, nb::arg("values").noconvert(), nb::arg("bounds").noconvert(),
               nb::arg("out").noconvert());
    module.def("quantize_groups", &quantize_groups_array, nb::arg("values").noconvert(), "width"_a, "bits"_a,
               "stochastic"_a, "seed"_a, nb::arg("scales").noconvert(), nb::arg("packed").noconvert(),
               nb::arg("restored").noconvert());
    module.def("restore_groups", &restore_groups_array, nb::arg("scales").noconvert(), nb::arg("packed").noconvert(),
               "width"_a, "bits"_a, nb::arg("out").noconvert());
    module.def("pack_groups", &pack_groups_array, nb::arg("codes").noconvert(), "groups"_a, "width"_a, "bits"_a,
               nb::arg("out").noconvert());
    module.def("unpack_groups", &unpack_groups_array, nb::arg("packed").noconvert(), "groups"_a, "width"_a, "bits"_a,
               nb::arg("out").noconvert());
    module.def("mark_largest", &mark_largest_array, nb::arg("values").noconvert(), "width"_a, "sent"_a,
               nb::arg("out").noconvert());
}

}  // namespace mvcs
