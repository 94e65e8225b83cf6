// Words to planes of bytes and back; floats are rotated left by one, so that the exponent fills the top plane.
#pragma once

#include <array>
#include <bit>
#include <cstring>

#include "base/levels.hpp"

namespace mvcs::detail {

// Plane p of `count` words starts at planes + p * count; plane 0 holds the lowest bytes.
template <class Stored>
MVCS_INLINE inline void split_each(const std::uint8_t* __restrict content, std::size_t count, bool floating,
                                    std::uint8_t* __restrict planes) {
    for (std::size_t i = 0; i < count; ++i) {
        Stored word;
        std::memcpy(&word, content + i * sizeof word, sizeof word);
        if (floating) word = std::rotl(word, 1);
        for (std::size_t p = 0; p < sizeof word; ++p) planes[p * count + i] = static_cast<std::uint8_t>(word >> 8 * p);
    }
}

template <class Stored>
MVCS_INLINE inline void merge_each(const std::array<const std::uint8_t*, sizeof(Stored)>& planes, std::size_t count,
                            bool floating, std::uint8_t* out) {
    for (std::size_t i = 0; i < count; ++i) {
        Stored word = 0;
        for (std::size_t p = 0; p < sizeof word; ++p) {
            word = static_cast<Stored>(word | static_cast<Stored>(planes[p][i]) << 8 * p);
        }
        if (floating) word = std::rotr(word, 1);
        std::memcpy(out + i * sizeof word, &word, sizeof word);
    }
}

template <class Stored>
void split_planes(Bytes content, bool floating, std::uint8_t* planes) {
    const std::size_t count = content.size() / sizeof(Stored);
    at_active_level([&]() MVCS_INLINE {
        if (floating) {
            split_each<Stored>(content.data(), count, true, planes);
        } else {
            split_each<Stored>(content.data(), count, false, planes);
        }
    });
}

template <class Stored>
void merge_planes(const std::array<const std::uint8_t*, sizeof(Stored)>& planes, std::size_t count, bool floating,
                  std::uint8_t* out) {
    at_active_level([&]() MVCS_INLINE {
        if (floating) {
            merge_each<Stored>(planes, count, true, out);
        } else {
            merge_each<Stored>(planes, count, false, out);
        }
    });
}

}  // namespace mvcs::detail
