// Bindings of memory that is used again.
#include "bind.hpp"
#include "pool.hpp"

namespace nb = nanobind;

namespace mvcs {

namespace {

nb::ndarray<nb::numpy, std::uint8_t, nb::ndim<1>> buffer(std::size_t bytes) {
    void* const memory = shared_pool().take(bytes);
    const nb::capsule owner(memory, [](void* taken) noexcept { shared_pool().give(taken); });
    return {memory, {bytes}, owner};
}

}  // namespace

void bind_memory(nb::module_& module) {
    using namespace nb::literals;
    module.def("buffer", &buffer, "size"_a);
    module.def("release_buffers", [] { shared_pool().release(); });
}

}  // namespace mvcs
