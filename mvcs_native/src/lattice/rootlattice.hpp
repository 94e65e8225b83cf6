// Values in units of the root of another tensor's values, to multiples of a step and back.
#pragma once

#include <cmath>

#include "lattice/lattice.hpp"

namespace mvcs {

namespace detail {

// Whether the root of v scales anything: above zero, finite, a number.
MVCS_INLINE inline bool scales(float v) { return (v > 0.0f) & (v < std::numeric_limits<float>::infinity()); }

MVCS_INLINE inline bool is_finite(float value) {
    return (std::bit_cast<std::uint32_t>(value) & magnitude_bits) < infinity_bits;
}

// First moments are noise around zero, and the coarse steps that suit them are coded cheaper for a slight pull there:
// what lies between is rounded up from 0.55 steps on.
inline constexpr float pull = 0.05f;

// Both return the number of exceptions.
MVCS_INLINE inline std::int32_t root_codes(const float* __restrict values, const float* __restrict roots, float step,
                                           std::int16_t* __restrict codes, std::size_t count) {
    std::int32_t exceptions = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const float u = values[i] / (step * std::sqrt(roots[i]));
        const std::int32_t nearest = nearest_code(u - std::copysign(pull, u));
        const std::int32_t code = nearest & -static_cast<std::int32_t>(scales(roots[i]));
        const bool kept = is_finite(values[i]) & has_code(code);
        exceptions += 1 - static_cast<std::int32_t>(kept);
        codes[i] = code_where(kept, code, exception_code);
    }
    return exceptions;
}

MVCS_INLINE inline std::int32_t root_sign_codes(const float* __restrict values, const float* __restrict roots,
                                                std::int16_t* __restrict codes, std::size_t count) {
    std::int32_t exceptions = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const std::int32_t above = values[i] > 0.0f;
        const std::int32_t below = values[i] < 0.0f;
        const std::int32_t sign = (above - below) & -static_cast<std::int32_t>(scales(roots[i]));
        const bool kept = is_finite(values[i]);
        exceptions += 1 - static_cast<std::int32_t>(kept);
        codes[i] = code_where(kept, sign, exception_code);
    }
    return exceptions;
}

MVCS_INLINE inline void root_values(const std::int16_t* __restrict codes, const float* __restrict roots, float step,
                                    float* __restrict values, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
        const float value = (static_cast<float>(codes[i]) * step) * std::sqrt(roots[i]);
        values[i] = scales(roots[i]) & is_finite(value) ? value : 0.0f;
    }
}

}  // namespace detail

// Writes the multiple of step * sqrt(v) nearest to each value less 0.05 steps of its magnitude, 0 where v scales nothing, -32768 for what is not finite
// or has no code. Returns how many of these.
inline std::size_t root_lattice(std::span<const float> values, std::span<const float> roots, unsigned step_byte,
                                std::span<std::int16_t> codes) {
    require(values.size() == codes.size() && values.size() == roots.size(), "values, roots and codes differ in length");
    const DefaultEnvironment environment;
    const float step = lattice_step(step_byte);
    return detail::in_counted_blocks(values.size(), [&](std::size_t start, std::size_t end) MVCS_INLINE {
        return detail::root_codes(values.data() + start, roots.data() + start, step, codes.data() + start, end - start);
    });
}

// Writes the sign of each value as -1, 0 or 1, 0 where v scales nothing, -32768 for what is not finite. Returns how
// many of these.
inline std::size_t root_signs(std::span<const float> values, std::span<const float> roots,
                              std::span<std::int16_t> codes) {
    require(values.size() == codes.size() && values.size() == roots.size(), "values, roots and codes differ in length");
    const DefaultEnvironment environment;
    return detail::in_counted_blocks(values.size(), [&](std::size_t start, std::size_t end) MVCS_INLINE {
        return detail::root_sign_codes(values.data() + start, roots.data() + start, codes.data() + start, end - start);
    });
}

// Writes (code * step) * sqrt(v), rounded after the root and after the second product; 0 where v scales nothing or
// the product is not finite.
inline void root_unlattice(std::span<const std::int16_t> codes, std::span<const float> roots, unsigned step_byte,
                           std::span<float> values) {
    require(values.size() == codes.size() && values.size() == roots.size(), "values, roots and codes differ in length");
    const DefaultEnvironment environment;
    const float step = lattice_step(step_byte);
    at_active_level([&]() MVCS_INLINE {
        detail::root_values(codes.data(), roots.data(), step, values.data(), codes.size());
    });
}

}  // namespace mvcs
