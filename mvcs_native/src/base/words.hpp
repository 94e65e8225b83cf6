// What the exact coders share: words by their width, and pieces of payloads.
#pragma once

#include <vector>

#include "base/bits.hpp"

namespace mvcs {

inline constexpr std::size_t max_words = std::size_t{1} << 23;  // a chunk of complex numbers has two for each of 2^22
inline constexpr std::size_t slice_words = 1024;  // a pass keeps what it hands on in the first level of cache

namespace detail {

inline void put_sized(Payload& out, Bytes bytes) {
    put_varint(out, bytes.size());
    out.insert(out.end(), bytes.begin(), bytes.end());
}

// Calls with a word of the width in bytes.
template <class Call>
auto with_stored(std::size_t width, Call call) {
    switch (width) {
        case 1:
            return call(std::uint8_t{});
        case 2:
            return call(std::uint16_t{});
        case 4:
            return call(std::uint32_t{});
        case 8:
            return call(std::uint64_t{});
    }
    throw Invalid("a word has 1, 2, 4 or 8 bytes");
}

inline void check_words(std::size_t size, std::size_t width) {
    require(size % width == 0, "a chunk is not whole words");
    require(size / width <= max_words, "more than 2^23 words");
}

}  // namespace detail

}  // namespace mvcs
