// Bindings of memory that is used again.
#include "bind.hpp"
#include "pool.hpp"

namespace nb = nanobind;

namespace mvcs {

namespace {

constexpr std::size_t most_idle = std::size_t{96} << 20;

// Never destroyed: arrays may outlive the module.
Pool& pool() {
    static Pool* const shared = new Pool(most_idle);
    return *shared;
}

nb::ndarray<nb::numpy, std::uint8_t, nb::ndim<1>> buffer(std::size_t bytes) {
    void* const memory = pool().take(bytes);
    const nb::capsule owner(memory, [](void* taken) noexcept { pool().give(taken); });
    return {memory, {bytes}, owner};
}

}  // namespace

void bind_memory(nb::module_& module) {
    using namespace nb::literals;
    module.def("buffer", &buffer, "size"_a);
    module.def("release_buffers", [] { pool().release(); });
}

}  // namespace mvcs
