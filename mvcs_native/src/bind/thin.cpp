// Bindings of thin matrices.
#include "bind/bind.hpp"
#include "thin/spectrum.hpp"
#include "thin/thin.hpp"

namespace nb = nanobind;

namespace mvcs {

namespace {

using Floats = nb::ndarray<nb::numpy, const float, nb::ndim<2>, nb::c_contig>;
using MutableFloats = nb::ndarray<nb::numpy, float, nb::ndim<2>, nb::c_contig>;

template <class Element, class Two>
Matrix<Element> matrix(const Two& array) {
    return {{array.data(), array.size()}, array.shape(1)};
}

void times_columns_arrays(const Floats& values, const Floats& factor, const MutableFloats& out) {
    unlocked([&] { times_columns(matrix<const float>(values), matrix<const float>(factor), matrix<float>(out)); });
}

void times_rows_arrays(const Floats& values, const Floats& factor, const MutableFloats& out) {
    unlocked([&] { times_rows(matrix<const float>(values), matrix<const float>(factor), matrix<float>(out)); });
}

void less_product_arrays(const MutableFloats& values, const Floats& rows, const Floats& cols) {
    unlocked([&] { less_product(matrix<float>(values), matrix<const float>(rows), matrix<const float>(cols)); });
}

void spectrum_arrays(const Array<double>& rows, const Array<double>& values) {
    unlocked([&] { spectrum(view(rows), view(values)); });
}

}  // namespace

void bind_thin(nb::module_& module) {
    using namespace nb::literals;
    const auto array = [](const char* name) { return nb::arg(name).noconvert(); };
    module.def("times_columns", &times_columns_arrays, array("values"), array("factor"), array("out"));
    module.def("times_rows", &times_rows_arrays, array("values"), array("factor"), array("out"));
    module.def("less_product", &less_product_arrays, array("values"), array("rows"), array("cols"));
    module.def("spectrum", &spectrum_arrays, array("rows"), array("values"));
}

}  // namespace mvcs
