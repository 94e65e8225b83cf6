// Memory of kernels while they work: large arrays come from the pool, so that their pages are not fresh each time.
#pragma once

#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <type_traits>
#include <vector>

#include "base/pool.hpp"

namespace mvcs {

namespace detail {

// A sanitizer sees the bounds of memory from the heap only.
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MVCS_SANITIZED
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define MVCS_SANITIZED
#endif

#ifdef MVCS_SANITIZED
inline constexpr std::size_t least_pooled = static_cast<std::size_t>(-1);
#else
inline constexpr std::size_t least_pooled = std::size_t{1} << 16;
#endif

}  // namespace detail

// Takes large arrays from the pool and small ones from the heap.
template <class Element>
class PoolAllocator {
  public:
    using value_type = Element;

    PoolAllocator() = default;
    template <class Other>
    PoolAllocator(const PoolAllocator<Other>&) noexcept {}

    Element* allocate(std::size_t count) {
        if (count > static_cast<std::size_t>(-1) / 2 / sizeof(Element)) throw std::bad_alloc();
        const std::size_t bytes = count * sizeof(Element);
        return static_cast<Element*>(bytes < detail::least_pooled ? ::operator new(bytes) : shared_pool().take(bytes));
    }

    void deallocate(Element* memory, std::size_t count) noexcept {
        if (count * sizeof(Element) < detail::least_pooled) return ::operator delete(memory);
        shared_pool().give(memory);
    }

    friend bool operator==(PoolAllocator, PoolAllocator) { return true; }
};

// The bytes that an encoder makes.
using Payload = std::vector<std::uint8_t, PoolAllocator<std::uint8_t>>;

// Memory for values that are all written before they are read.
template <class Element>
class Scratch {
    static_assert(std::is_trivial_v<Element>);

  public:
    explicit Scratch(std::size_t size) : size_(size), values_(PoolAllocator<Element>().allocate(size), Giver{size}) {}

    Element* data() { return values_.get(); }
    std::size_t size() const { return size_; }
    const Element* data() const { return values_.get(); }
    Element& operator[](std::size_t i) { return values_[i]; }
    const Element& operator[](std::size_t i) const { return values_[i]; }
    std::span<Element> first(std::size_t count) { return {values_.get(), count}; }
    std::span<const Element> first(std::size_t count) const { return {values_.get(), count}; }

  private:
    struct Giver {
        std::size_t size;
        void operator()(Element* values) const noexcept { PoolAllocator<Element>().deallocate(values, size); }
    };

    std::size_t size_;
    std::unique_ptr<Element[], Giver> values_;
};

}  // namespace mvcs
