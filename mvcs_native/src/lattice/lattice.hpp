// Values to multiples of a step and back, with hysteresis around the codes of a base.
#pragma once

#include <bit>
#include <cmath>
#include <limits>

#include "base/codes.hpp"
#include "base/environment.hpp"
#include "base/levels.hpp"

namespace mvcs {

namespace detail {

inline constexpr std::uint32_t magnitude_bits = 0x7FFFFFFF;
inline constexpr std::uint32_t smallest_normal = 0x00800000;
inline constexpr std::uint32_t infinity_bits = 0x7F800000;

// Adding and subtracting 1.5 * 2^23 rounds to an integer, half to even, while |u| < 2^22.
inline constexpr float rounder = 12582912.0f;
inline constexpr float beyond_codes = 40000.0f;

// A NaN becomes the upper limit.
MVCS_INLINE inline float within_codes(float u) {
    const float below = u < beyond_codes ? u : beyond_codes;
    return below > -beyond_codes ? below : -beyond_codes;
}

MVCS_INLINE inline std::int32_t nearest_code(float u) {
    return static_cast<std::int32_t>((within_codes(u) + rounder) - rounder);
}

// Zeros are ordinary; subnormals, infinities and NaNs are not.
MVCS_INLINE inline bool is_ordinary(float value) {
    const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(value) & magnitude_bits;
    return (magnitude == 0) | (magnitude - smallest_normal < infinity_bits - smallest_normal);
}

// No short circuits here and below: a branch would keep the loop from being vectorised.
MVCS_INLINE inline bool has_code(std::int32_t code) {
    return static_cast<std::uint32_t>(code + largest_code) <= 2u * largest_code;
}

// The mask keeps the choice in 32 bits: narrowed before, it would not be vectorised by every compiler.
MVCS_INLINE inline std::int16_t code_where(bool kept, std::int32_t code, std::int32_t otherwise) {
    const std::int32_t mask = -static_cast<std::int32_t>(kept);
    return static_cast<std::int16_t>((code & mask) | (otherwise & ~mask));
}

// Counters of 32 bits vectorise with the floats they count.
inline constexpr std::size_t counted_block = std::size_t{1} << 20;

// Calls `block(start, end)` at the active level for runs of at most 2^20 of `count` items, and adds up what it returns.
template <class Block>
std::size_t in_counted_blocks(std::size_t count, const Block& block) {
    std::size_t total = 0;
    for (std::size_t start = 0; start < count; start += counted_block) {
        const std::size_t end = count - start < counted_block ? count : start + counted_block;
        std::int32_t found = 0;
        at_active_level([&]() MVCS_INLINE { found = block(start, end); });
        total += static_cast<std::size_t>(found);
    }
    return total;
}

// Both return the number of exceptions.
MVCS_INLINE inline std::int32_t lattice_alone(const float* __restrict values, float step, std::int16_t* __restrict codes,
                                              std::size_t count) {
    std::int32_t exceptions = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const std::int32_t code = nearest_code(values[i] / step);
        const bool kept = is_ordinary(values[i]) & has_code(code);
        exceptions += 1 - static_cast<std::int32_t>(kept);
        codes[i] = code_where(kept, code, exception_code);
    }
    return exceptions;
}

MVCS_INLINE inline std::int32_t lattice_held(const float* __restrict values, float step,
                                             const std::int16_t* __restrict base, float reach,
                                             std::int16_t* __restrict codes, std::size_t count) {
    std::int32_t exceptions = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const float u = values[i] / step;
        const std::int32_t old = base[i];
        const std::int32_t nearest = nearest_code(u);
        const std::int32_t code = std::fabs(u - static_cast<float>(old)) <= reach ? old : nearest;
        const bool kept = is_ordinary(values[i]) & has_code(code);
        exceptions += 1 - static_cast<std::int32_t>(kept);
        codes[i] = code_where(kept, code, exception_code);
    }
    return exceptions;
}

}  // namespace detail

// The step of a step byte: (4 + s % 4) * 2^(s / 4 - 60), exact in float32.
inline float lattice_step(unsigned step) {
    require(step < 256, "a step is a byte");
    return std::ldexp(static_cast<float>(4 + step % 4), static_cast<int>(step / 4) - 60);
}

// Writes for each value its nearest multiple of the step, half to even, or the base's code where that is within
// 0.5 + hysteresis steps; -32768 for what is not finite, is subnormal or has no code. Returns how many of these.
// An empty base stands for none.
inline std::size_t lattice(std::span<const float> values, unsigned step_byte, std::span<const std::int16_t> base,
                           float hysteresis, std::span<std::int16_t> codes) {
    require(values.size() == codes.size(), "values and codes differ in length");
    require(base.empty() || base.size() == values.size(), "values and base codes differ in length");
    require(hysteresis >= 0.0f && hysteresis < 1.0f, "hysteresis is from 0 up to, not including, 1");
    const DefaultEnvironment environment;
    const float step = lattice_step(step_byte);
    const float reach = 0.5f + hysteresis;
    return detail::in_counted_blocks(values.size(), [&](std::size_t start, std::size_t end) MVCS_INLINE {
        const float* const from = values.data() + start;
        std::int16_t* const to = codes.data() + start;
        if (base.empty()) return detail::lattice_alone(from, step, to, end - start);
        return detail::lattice_held(from, step, base.data() + start, reach, to, end - start);
    });
}

// Writes code * step, which float32 holds exactly. What it writes for an exception is for the caller to replace.
inline void unlattice(std::span<const std::int16_t> codes, unsigned step_byte, std::span<float> values) {
    require(values.size() == codes.size(), "values and codes differ in length");
    const DefaultEnvironment environment;
    const float step = lattice_step(step_byte);
    const std::int16_t* const from = codes.data();
    float* const to = values.data();
    const std::size_t count = codes.size();
    at_active_level([=]() MVCS_INLINE {
        for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]) * step;
    });
}

}  // namespace mvcs
