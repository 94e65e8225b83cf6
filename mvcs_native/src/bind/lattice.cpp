// Bindings of the lattices and of what is measured on their values.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

#include <tuple>

#include "bind/bind.hpp"
#include "lattice/balance.hpp"
#include "lattice/loglattice.hpp"
#include "lattice/measure.hpp"
#include "lattice/pace.hpp"
#include "lattice/rootlattice.hpp"

namespace nb = nanobind;

namespace mvcs {

namespace {

using Floats = Array<const float>;
using Halves = Array<const std::uint16_t>;
using Codes = Array<const std::int16_t>;
using MutableFloats = Array<float>;
using MutableCodes = Array<std::int16_t>;
using Integers = Array<std::int64_t>;

std::size_t lattice_arrays(const Floats& values, unsigned step, const Codes& base, float hysteresis,
                           const MutableCodes& out) {
    return unlocked([&] { return lattice(view(values), step, view(base), hysteresis, view(out)); });
}

void unlattice_arrays(const Codes& codes, unsigned step, const MutableFloats& out) {
    unlocked([&] { unlattice(view(codes), step, view(out)); });
}

std::size_t balance_arrays(const Floats& values, unsigned step, std::size_t run, std::size_t start,
                           const MutableCodes& codes) {
    return unlocked([&] { return balance(view(values), step, run, start, view(codes)); });
}

std::size_t keep_pace_arrays(const Floats& values, const Halves& past, unsigned step, std::size_t run,
                             std::size_t start, const MutableCodes& codes) {
    return unlocked([&] { return keep_pace(view(values), view(past), step, run, start, view(codes)); });
}

LogGrid grid_of(unsigned scale, const Codes& rows, const Codes& cols, std::size_t columns, std::size_t start) {
    return {scale, view(rows), view(cols), columns, start};
}

std::size_t log_lattice_arrays(const Floats& values, unsigned scale, const Codes& rows, const Codes& cols,
                               std::size_t columns, std::size_t start, const MutableCodes& out) {
    return unlocked([&] { return log_lattice(view(values), grid_of(scale, rows, cols, columns, start), view(out)); });
}

void log_unlattice_arrays(const Codes& codes, unsigned scale, const Codes& rows, const Codes& cols,
                          std::size_t columns, std::size_t start, const MutableFloats& out) {
    unlocked([&] { log_unlattice(view(codes), grid_of(scale, rows, cols, columns, start), view(out)); });
}

void log_sums_arrays(const Floats& values, unsigned scale, const Codes& rows, std::size_t columns, std::size_t start,
                     bool by_column, const Integers& sums, const Integers& counts) {
    unlocked([&] { log_sums(view(values), {scale, view(rows), {}, columns, start}, by_column, view(sums), view(counts)); });
}

std::size_t root_lattice_arrays(const Floats& values, const Floats& roots, unsigned step, const MutableCodes& out) {
    return unlocked([&] { return root_lattice(view(values), view(roots), step, view(out)); });
}

std::size_t root_signs_arrays(const Floats& values, const Floats& roots, const MutableCodes& out) {
    return unlocked([&] { return root_signs(view(values), view(roots), view(out)); });
}

void root_unlattice_arrays(const Codes& codes, const Floats& roots, unsigned step, const MutableFloats& out) {
    unlocked([&] { root_unlattice(view(codes), view(roots), step, view(out)); });
}

std::tuple<double, double, double> error_sums_arrays(const Floats& exact, const Floats& restored) {
    const ErrorSums sums = unlocked([&] { return error_sums(view(exact), view(restored)); });
    return {sums.largest, sums.squares, sums.scale};
}

std::pair<double, double> progress_sums_arrays(const Floats& restored, const Floats& now, const Floats& before) {
    const ProgressSums sums = unlocked([&] { return progress_sums(view(restored), view(now), view(before)); });
    return {sums.kept, sums.moved};
}

std::pair<double, std::int64_t> root_sums_arrays(const Floats& values, const Floats& roots) {
    const RootSums sums = unlocked([&] { return root_sums(view(values), view(roots)); });
    return {sums.total, sums.count};
}

}  // namespace

void bind_lattice(nb::module_& module) {
    using namespace nb::literals;
    const auto array = [](const char* name) { return nb::arg(name).noconvert(); };
    module.def("lattice", &lattice_arrays, array("values"), "step"_a, array("base"), "hysteresis"_a, array("out"));
    module.def("unlattice", &unlattice_arrays, array("codes"), "step"_a, array("out"));
    module.def("balance", &balance_arrays, array("values"), "step"_a, "run"_a, "start"_a, array("codes"));
    module.def("keep_pace", &keep_pace_arrays, array("values"), array("past"), "step"_a, "run"_a, "start"_a,
               array("codes"));
    module.def("log_lattice", &log_lattice_arrays, array("values"), "scale"_a, array("rows"), array("cols"),
               "columns"_a, "start"_a, array("out"));
    module.def("log_unlattice", &log_unlattice_arrays, array("codes"), "scale"_a, array("rows"), array("cols"),
               "columns"_a, "start"_a, array("out"));
    module.def("log_sums", &log_sums_arrays, array("values"), "scale"_a, array("rows"), "columns"_a, "start"_a,
               "by_column"_a, array("sums"), array("counts"));
    module.def("root_lattice", &root_lattice_arrays, array("values"), array("roots"), "step"_a, array("out"));
    module.def("root_signs", &root_signs_arrays, array("values"), array("roots"), array("out"));
    module.def("root_unlattice", &root_unlattice_arrays, array("codes"), array("roots"), "step"_a, array("out"));
    module.def("error_sums", &error_sums_arrays, array("exact"), array("restored"));
    module.def("progress_sums", &progress_sums_arrays, array("restored"), array("now"), array("before"));
    module.def("root_sums", &root_sums_arrays, array("values"), array("roots"));
}

}  // namespace mvcs
