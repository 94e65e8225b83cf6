// Bindings of the kernels between floats and codes.
#include <memory>

#include "bind/bind.hpp"
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

}  // namespace

void bind_quantizing(nb::module_& module) {
    using namespace nb::literals;
    module.def("sketch", &sketch_array, nb::arg("values").noconvert(), nb::arg("counts").noconvert(),
               nb::arg("low").noconvert(), nb::arg("high").noconvert());
    module.def("kmeans", &kmeans_arrays, nb::arg("points").noconvert(), nb::arg("weights").noconvert(), "k"_a);
    module.def("assign", &assign_array, nb::arg("values").noconvert(), nb::arg("bounds").noconvert(),
               nb::arg("out").noconvert());
}

}  // namespace mvcs
