// Memory for the large arrays that kernels write, used again and again: touching fresh pages costs more than most kernels.
#pragma once

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <new>
#include <vector>

namespace mvcs {

// Blocks that were given back wait for the next caller, the latest first. Safe to use from several threads.
class Pool {
public:
    // Keeps at most so many bytes of idle blocks; beyond that the oldest go back to the system.
    explicit Pool(std::size_t most_idle) : most_idle_(most_idle) {}
    Pool(const Pool&) = delete;
    Pool& operator=(const Pool&) = delete;
    ~Pool() { release(); }

    // Returns at least so many bytes, aligned to a cache line; throws std::bad_alloc.
    void* take(std::size_t bytes) {
        const std::size_t wanted = (bytes + granule - 1) / granule * granule;
        if (Block* const block = idle_block(wanted)) return data(block);
        return data(new (::operator new(header + wanted, alignment)) Block{wanted});
    }

    void give(void* memory) noexcept {
        Block* const block = reinterpret_cast<Block*>(static_cast<std::byte*>(memory) - header);
        const std::scoped_lock lock(mutex_);
        try {
            idle_.push_back(block);
        } catch (const std::bad_alloc&) {
            free(block);
            return;
        }
        idle_bytes_ += block->bytes;
        while (idle_bytes_ > most_idle_) drop(idle_.begin());
    }

    // Gives idle blocks back to the system.
    void release() noexcept {
        const std::scoped_lock lock(mutex_);
        while (!idle_.empty()) drop(idle_.end() - 1);
    }

private:
    struct Block {
        std::size_t bytes;
    };
    using Place = std::vector<Block*>::iterator;

    static constexpr std::size_t header = 64;
    static constexpr std::align_val_t alignment{64};
    static constexpr std::size_t granule = std::size_t{1} << 16;

    static void* data(Block* block) noexcept { return reinterpret_cast<std::byte*>(block) + header; }
    static void free(Block* block) noexcept { ::operator delete(block, alignment); }

    // The latest block that is large enough and not much larger, since arrays may be kept for long.
    Block* idle_block(std::size_t wanted) {
        const std::scoped_lock lock(mutex_);
        const auto found = std::find_if(idle_.rbegin(), idle_.rend(), [&](const Block* block) {
            return block->bytes >= wanted && block->bytes <= wanted + wanted / 4;
        });
        if (found == idle_.rend()) return nullptr;
        Block* const block = *found;
        idle_bytes_ -= block->bytes;
        idle_.erase(found.base() - 1);
        return block;
    }

    void drop(Place place) noexcept {
        idle_bytes_ -= (*place)->bytes;
        free(*place);
        idle_.erase(place);
    }

    std::mutex mutex_;
    std::vector<Block*> idle_;
    std::size_t idle_bytes_ = 0;
    const std::size_t most_idle_;
};

// The pool that all kernels share. Never destroyed: arrays may outlive the module.
inline Pool& shared_pool() {
    constexpr std::size_t most_idle = std::size_t{96} << 20;
    static Pool* const shared = new Pool(most_idle);
    return *shared;
}

}  // namespace mvcs
