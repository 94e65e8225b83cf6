// Blocks of words that equal their base and are left out: rows of an embedding that no example touched.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "base/levels.hpp"
#include "base/words.hpp"
#include "entropy/tables.hpp"

namespace mvcs::detail {

inline constexpr std::size_t skip_block = 64;  // words; streams are taken in multiples of as many symbols

inline std::size_t skip_blocks(std::size_t count) { return (count + skip_block - 1) / skip_block; }

// 1 for each block that equals its base, else 0.
inline std::vector<std::uint8_t> equal_blocks(Bytes content, Bytes base, std::size_t width) {
    const std::size_t length = skip_block * width;
    std::vector<std::uint8_t> equal(skip_blocks(content.size() / width));
    for (std::size_t b = 0; b < equal.size(); ++b) {
        const std::size_t at = b * length;
        equal[b] = std::memcmp(&content[at], &base[at], std::min(length, content.size() - at)) == 0;
    }
    return equal;
}

template <class Stored>
std::size_t equal_words(Bytes content, Bytes base) {
    std::size_t total = 0;
    at_active_level([&]() MVCS_INLINE {
        std::size_t equal = 0;
        for (std::size_t at = 0; at < content.size(); at += sizeof(Stored)) {
            Stored word;
            Stored near;
            std::memcpy(&word, content.data() + at, sizeof word);
            std::memcpy(&near, base.data() + at, sizeof near);
            equal += word == near;
        }
        total = equal;
    });
    return total;
}

// Of saying for each of `count` words whether it is one of the `equal` ones.
inline Price flags_price(std::size_t count, std::size_t equal) {
    const auto part = [](std::size_t n) { return static_cast<Price>(n) * log2_price(n); };
    return part(count) - part(equal) - part(count - equal);
}

inline std::size_t map_bits(Bytes map) {
    std::size_t bits = 0;
    for (std::size_t start = 0, end; start < map.size(); start = end) {
        for (end = start + 1; end < map.size() && map[end] == map[start];) ++end;
        bits += 2 * static_cast<std::size_t>(std::bit_width(end - start));
    }
    return bits;
}

// The blocks to leave out, or an empty map where naming them costs more than it saves. Not all of them are equal.
template <class Stored>
std::vector<std::uint8_t> blocks_to_skip(Bytes content, Bytes base) {
    std::vector<std::uint8_t> skipped = equal_blocks(content, base, sizeof(Stored));
    std::size_t words = 0;
    for (std::size_t b = 0; b < skipped.size(); ++b) {
        if (skipped[b] != 0) words += std::min(skip_block, content.size() / sizeof(Stored) - b * skip_block);
    }
    if (words == 0) return {};
    const std::size_t count = content.size() / sizeof(Stored);
    const std::size_t equal = equal_words<Stored>(content, base);
    const Price named = bits_price(static_cast<std::int64_t>(map_bits(skipped)));
    if (flags_price(count - words, equal - words) + named >= flags_price(count, equal)) return {};
    return skipped;
}

inline std::size_t skipped_words(Bytes skipped, std::size_t count) {
    auto words = static_cast<std::size_t>(std::count(skipped.begin(), skipped.end(), std::uint8_t{1})) * skip_block;
    if (!skipped.empty() && skipped.back() != 0) words -= skip_blocks(count) * skip_block - count;
    return words;
}

// Calls with the start and the size of slices of at most slice_words that hold all words not skipped.
template <class Each>
void each_slice(Bytes skipped, std::size_t count, Each each) {
    const auto skips = [&](std::size_t at) { return !skipped.empty() && skipped[at / skip_block] != 0; };
    for (std::size_t at = 0; at < count;) {
        std::size_t end = at;
        while (end < std::min(count, at + slice_words) && !skips(end)) end += skip_block;
        if (end > at) each(at, std::min(end, count) - at);
        at = std::max(end, at + skip_block * skips(at));
    }
}

}  // namespace mvcs::detail
