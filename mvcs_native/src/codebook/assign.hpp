// Values to codes: the code of a value is the number of bounds below it.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <vector>

#include "base/levels.hpp"

namespace mvcs {

inline constexpr std::size_t max_bounds = 255;

namespace detail {

// Comparing with every bound needs no branch and vectorises, and wins while the bounds are few.
inline constexpr std::size_t linear_bounds = 16;
inline constexpr std::size_t lanes = 32;

MVCS_INLINE inline void assign_block(const float* values, std::span<const float> bounds, std::uint8_t* out) {
    std::array<std::int32_t, lanes> below{};
    for (const float bound : bounds) {
        for (std::size_t lane = 0; lane < lanes; ++lane) below[lane] += bound < values[lane] ? 1 : 0;
    }
    for (std::size_t lane = 0; lane < lanes; ++lane) out[lane] = static_cast<std::uint8_t>(below[lane]);
}

MVCS_INLINE inline void assign_linear(std::span<const float> values, std::span<const float> bounds, MutableBytes out) {
    const std::size_t whole = values.size() / lanes * lanes;
    for (std::size_t i = 0; i < whole; i += lanes) assign_block(&values[i], bounds, &out[i]);
    for (std::size_t i = whole; i < values.size(); ++i) {
        std::size_t below = 0;
        for (const float bound : bounds) below += bound < values[i] ? 1 : 0;
        out[i] = static_cast<std::uint8_t>(below);
    }
}

// Eight values at a time, since one search alone would wait for each of its own loads.
MVCS_INLINE inline void assign_search(std::span<const float> values, std::span<const float> bounds, MutableBytes out) {
    std::array<float, max_bounds> padded;
    padded.fill(std::numeric_limits<float>::infinity());
    std::copy(bounds.begin(), bounds.end(), padded.begin());
    constexpr std::size_t width = 8;
    for (std::size_t start = 0; start < values.size(); start += width) {
        const std::size_t count = std::min(width, values.size() - start);
        std::array<float, width> block{};
        std::array<std::uint32_t, width> below{};
        std::copy_n(&values[start], count, block.begin());
        for (std::uint32_t step = 128; step != 0; step /= 2) {
            for (std::size_t lane = 0; lane < width; ++lane) {
                below[lane] += padded[below[lane] + step - 1] < block[lane] ? step : 0;
            }
        }
        for (std::size_t lane = 0; lane < count; ++lane) {
            out[start + lane] = static_cast<std::uint8_t>(below[lane]);
        }
    }
}

// For the upper 16 bits of a pattern: how many bounds lie below all values that have them, and whether more than one
// lies among these values.
struct AssignBucket {
    std::uint8_t below = 0;
    bool more = false;
};

inline constexpr std::uint32_t infinite_bucket = 0x7F80;
inline constexpr std::size_t bucketed_values = std::size_t{1} << 16;  // fewer do not pay for the buckets

inline std::vector<AssignBucket> assign_buckets(std::span<const float> bounds) {
    std::vector<AssignBucket> buckets(65536);
    std::size_t below = 0;
    const auto fill = [&](std::uint32_t bucket, std::uint32_t least, std::uint32_t most) {
        while (below < bounds.size() && bounds[below] < std::bit_cast<float>(least)) ++below;
        const bool more = below + 1 < bounds.size() && bounds[below + 1] < std::bit_cast<float>(most);
        buckets[bucket] = {static_cast<std::uint8_t>(below), more};
    };
    for (std::uint32_t bucket = 0x8000 | (infinite_bucket - 1); bucket >= 0x8000; --bucket) {
        fill(bucket, bucket << 16 | 0xFFFF, bucket << 16);
    }
    for (std::uint32_t bucket = 0; bucket < infinite_bucket; ++bucket) fill(bucket, bucket << 16, bucket << 16 | 0xFFFF);
    // Shared by infinity and NaNs: counted from the first bound on, of which none is below a NaN.
    buckets[infinite_bucket].more = true;
    return buckets;
}

inline void assign_bucketed(std::span<const float> values, std::span<const float> bounds, MutableBytes out) {
    std::array<float, max_bounds + 1> padded;
    padded.fill(std::numeric_limits<float>::infinity());
    std::copy(bounds.begin(), bounds.end(), padded.begin());
    const std::vector<AssignBucket> buckets = assign_buckets(bounds);
    for (std::size_t i = 0; i < values.size(); ++i) {
        const float value = values[i];
        const AssignBucket bucket = buckets[std::bit_cast<std::uint32_t>(value) >> 16];
        std::size_t below = bucket.below;
        below += padded[below] < value ? 1 : 0;
        if (bucket.more) {
            while (padded[below] < value) ++below;
        }
        out[i] = static_cast<std::uint8_t>(below);
    }
}

}  // namespace detail

// Writes, for each value, the number of bounds strictly less than it. A NaN gets 0; the caller keeps NaNs apart.
inline void assign(std::span<const float> values, std::span<const float> bounds, MutableBytes out) {
    require(values.size() == out.size(), "values and codes differ in length");
    require(bounds.size() <= max_bounds, "more than 255 bounds");
    for (std::size_t i = 0; i < bounds.size(); ++i) {
        require(i == 0 ? bounds[0] == bounds[0] : bounds[i - 1] <= bounds[i], "bounds are not ascending");
    }
    if (bounds.size() > detail::linear_bounds && values.size() >= detail::bucketed_values) {
        return detail::assign_bucketed(values, bounds, out);
    }
    at_active_level([&]() MVCS_INLINE {
        if (bounds.size() <= detail::linear_bounds) {
            detail::assign_linear(values, bounds, out);
        } else {
            detail::assign_search(values, bounds, out);
        }
    });
}

}  // namespace mvcs
