// What every file of bindings needs: buffers in, bytes out, the interpreter lock released around every kernel.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <span>
#include <utility>
#include <vector>

#include "base/scratch.hpp"

namespace mvcs {

// One-dimensional and contiguous. Bind arguments with noconvert(): a converted copy of `out` would be filled and
// thrown away.
template <class Element>
using Array = nanobind::ndarray<Element, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;

template <class Element>
std::span<Element> view(const Array<Element>& array) {
    return {array.data(), array.size()};
}

inline nanobind::bytes as_bytes(const Payload& bytes) {
    return nanobind::bytes(bytes.data(), bytes.size());
}

// Hands a payload over as it lies in memory.
inline nanobind::ndarray<nanobind::numpy, std::uint8_t, nanobind::ndim<1>> as_array(Payload&& bytes) {
    auto* const owned = new Payload(std::move(bytes));
    const nanobind::capsule owner(owned, [](void* payload) noexcept { delete static_cast<Payload*>(payload); });
    return {owned->data(), {owned->size()}, owner};
}

// Runs a kernel without the interpreter lock.
template <class Kernel>
auto unlocked(Kernel kernel) {
    const nanobind::gil_scoped_release released;
    return kernel();
}

void bind_levels(nanobind::module_& module);
void bind_quantizing(nanobind::module_& module);
void bind_groups(nanobind::module_& module);
void bind_exact(nanobind::module_& module);
void bind_lattice(nanobind::module_& module);
void bind_memory(nanobind::module_& module);
void bind_rans(nanobind::module_& module);
void bind_thin(nanobind::module_& module);

}  // namespace mvcs
