// Bindings of the choice of instructions.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>

#include "base/cpu.hpp"
#include "bind/bind.hpp"

namespace nb = nanobind;

namespace mvcs {

void bind_levels(nb::module_& module) {
    using namespace nb::literals;
    module.def("levels", [] {
        const auto count = static_cast<std::size_t>(best_level()) + 1;
        return std::vector<std::string>(level_names.begin(), level_names.begin() + count);
    });
    module.def("level", [] { return std::string(level_names[static_cast<std::size_t>(active_level())]); });
    module.def("use_level", [](const std::string& name) { use_level(name); }, "name"_a);
}

}  // namespace mvcs
