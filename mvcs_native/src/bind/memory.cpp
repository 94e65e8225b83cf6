// Bindings of memory that is used again.
#include <nanobind/stl/vector.h>

#include "base/gather.hpp"
#include "base/pool.hpp"
#include "bind/bind.hpp"

namespace nb = nanobind;

namespace mvcs {

namespace {

nb::ndarray<nb::numpy, std::uint8_t, nb::ndim<1>> buffer(std::size_t bytes) {
    void* const memory = shared_pool().take(bytes);
    const nb::capsule owner(memory, [](void* taken) noexcept { shared_pool().give(taken); });
    return {memory, {bytes}, owner};
}

// Arrays that are filled from elsewhere again and again; kept alive.
class Gather {
public:
    explicit Gather(std::vector<Array<std::uint8_t>> targets) : targets_(std::move(targets)) {}

    void fill(const std::vector<std::uintptr_t>& addresses, std::size_t threads) const {
        require(addresses.size() == targets_.size(), "there must be one address for each target");
        std::vector<Copy> copies;
        copies.reserve(addresses.size());
        for (std::size_t i = 0; i < addresses.size(); ++i) {
            require(addresses[i] != 0 || targets_[i].size() == 0, "an address is null");
            copies.push_back({reinterpret_cast<const std::uint8_t*>(addresses[i]), view(targets_[i])});
        }
        unlocked([&] { gather(copies, threads); });
    }

private:
    std::vector<Array<std::uint8_t>> targets_;
};

}  // namespace

void bind_memory(nb::module_& module) {
    using namespace nb::literals;
    module.def("buffer", &buffer, "size"_a);
    module.def("release_buffers", [] { shared_pool().release(); });
    nb::class_<Gather>(module, "Gather")
        .def(nb::init<std::vector<Array<std::uint8_t>>>(), "targets"_a.noconvert())
        .def("fill", &Gather::fill, "addresses"_a, "threads"_a);
}

}  // namespace mvcs
