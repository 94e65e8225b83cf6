// Values to codes: the code of a value is the number of bounds below it.
#pragma once

#include <algorithm>
#include <array>
#include <limits>

#include "span.hpp"

namespace mvcs {

inline constexpr std::size_t max_bounds = 255;

namespace detail {

// Comparing with every bound needs no branch and vectorises, and wins while the bounds are few.
inline constexpr std::size_t linear_bounds = 32;
inline constexpr std::size_t lanes = 32;

inline void assign_block(const float* values, std::span<const float> bounds, std::uint8_t* out) {
    std::array<std::int32_t, lanes> below{};
    for (const float bound : bounds) {
        for (std::size_t lane = 0; lane < lanes; ++lane) below[lane] += bound < values[lane] ? 1 : 0;
    }
    for (std::size_t lane = 0; lane < lanes; ++lane) out[lane] = static_cast<std::uint8_t>(below[lane]);
}

inline void assign_linear(std::span<const float> values, std::span<const float> bounds, MutableBytes out) {
    const std::size_t whole = values.size() / lanes * lanes;
    for (std::size_t i = 0; i < whole; i += lanes) assign_block(&values[i], bounds, &out[i]);
    for (std::size_t i = whole; i < values.size(); ++i) {
        std::size_t below = 0;
        for (const float bound : bounds) below += bound < values[i] ? 1 : 0;
        out[i] = static_cast<std::uint8_t>(below);
    }
}

// Eight values at a time, since one search alone would wait for each of its own loads.
inline void assign_search(std::span<const float> values, std::span<const float> bounds, MutableBytes out) {
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

}  // namespace detail

// Writes, for each value, the number of bounds strictly less than it. A NaN gets 0; the caller keeps NaNs apart.
inline void assign(std::span<const float> values, std::span<const float> bounds, MutableBytes out) {
    require(values.size() == out.size(), "values and codes differ in length");
    require(bounds.size() <= max_bounds, "more than 255 bounds");
    for (std::size_t i = 0; i < bounds.size(); ++i) {
        require(i == 0 ? bounds[0] == bounds[0] : bounds[i - 1] <= bounds[i], "bounds are not ascending");
    }
    if (bounds.size() <= detail::linear_bounds) {
        detail::assign_linear(values, bounds, out);
    } else {
        detail::assign_search(values, bounds, out);
    }
}

}  // namespace mvcs
