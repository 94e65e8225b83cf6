// Copies of much memory that nobody reads soon: written past the caches, which then keep what they hold.
#pragma once

#include <algorithm>
#include <cstring>
#include <future>
#include <system_error>
#include <vector>

#include "base/intrinsics.hpp"

namespace mvcs {

// As many bytes from `source` as `target` has.
struct Copy {
    const std::uint8_t* source;
    MutableBytes target;
};

namespace detail {

#ifdef MVCS_X86
// Streamed stores spare reading the lines that are overwritten, a third of what moves through the memory. They need
// aligned places, and those of small pieces would be a detour.
MVCS_AVX2 inline void copy_streamed(const std::uint8_t* source, MutableBytes target) {
    constexpr std::size_t line = 64;
    std::uint8_t* const out = target.data();
    const std::size_t head = std::min(-reinterpret_cast<std::uintptr_t>(out) % line, target.size());
    std::memcpy(out, source, head);
    std::size_t at = head;
    for (; at + line <= target.size(); at += line) {
        const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(source + at));
        const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(source + at + line / 2));
        _mm256_stream_si256(reinterpret_cast<__m256i*>(out + at), low);
        _mm256_stream_si256(reinterpret_cast<__m256i*>(out + at + line / 2), high);
    }
    std::memcpy(out + at, source + at, target.size() - at);
}
#endif

inline void copy_piece(const std::uint8_t* source, MutableBytes target) {
#ifdef MVCS_X86
    constexpr std::size_t least = 1024;
    if (target.size() >= least && active_level() >= Level::avx2) return copy_streamed(source, target);
#endif
    std::memcpy(target.data(), source, target.size());
}

// Bytes start .. end of all copies laid end to end.
inline void copy_range(std::span<const Copy> copies, std::size_t start, std::size_t end) {
    std::size_t at = 0;
    for (const Copy& copy : copies) {
        const std::size_t next = at + copy.target.size();
        const std::size_t from = std::clamp(start, at, next) - at;
        const std::size_t to = std::clamp(end, at, next) - at;
        if (from < to) copy_piece(copy.source + from, copy.target.subspan(from, to - from));
        at = next;
    }
#ifdef MVCS_X86
    _mm_sfence();  // streamed stores are seen by other threads only after it
#endif
}

}  // namespace detail

// Makes all copies, on up to `threads` threads where there is enough to copy.
inline void gather(std::span<const Copy> copies, std::size_t threads) {
    constexpr std::size_t worth_a_thread = std::size_t{1} << 23;  // starting one takes as long as copying 1 MB
    std::size_t total = 0;
    for (const Copy& copy : copies) total += copy.target.size();
    const std::size_t parts = std::max<std::size_t>(1, std::min(threads, total / worth_a_thread));
    const std::size_t part = (total + parts - 1) / parts;
    std::vector<std::future<void>> others;
    std::size_t start = 0;
    try {
        for (; start + part < total; start += part) {
            const auto run = [copies, start, part] { detail::copy_range(copies, start, start + part); };
            others.push_back(std::async(std::launch::async, run));
        }
    } catch (const std::system_error&) {
        // No further thread can be had: this one does the rest.
    }
    detail::copy_range(copies, start, total);
    for (auto& other : others) other.get();
}

}  // namespace mvcs
