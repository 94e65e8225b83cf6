// Codes of a lattice moved by one, so that the rounding errors of each row of a weight add up to less than a step.
#pragma once

#include <algorithm>

#include "base/scratch.hpp"
#include "lattice/lattice.hpp"

namespace mvcs {

namespace detail {

inline constexpr std::size_t least_balanced = 8;

// Errors are added up as integers, whose sum is the same in any order: in units of 2^-20 steps, and no farther than
// two steps, so that 512 of them fit 32 bits and the rounder rounds them.
inline constexpr int error_bits = 20;
inline constexpr float error_units = 1048576.0f;
inline constexpr float farthest_error = 2.0f;
inline constexpr std::size_t summed_block = 512;

// Patterns of positive floats are ordered as the floats are: this is the first above 0.25.
inline constexpr std::int32_t first_movable = std::bit_cast<std::int32_t>(0.25f) + 1;
inline constexpr std::int32_t sign_bit = std::numeric_limits<std::int32_t>::min();

// A NaN becomes the upper limit.
MVCS_INLINE inline float within_errors(float error) {
    const float below = error < farthest_error ? error : farthest_error;
    return below > -farthest_error ? below : -farthest_error;
}

struct RowSum {
    std::int64_t errors;
    bool exceptions;
};

// Writes the pattern of each error, u - code, and adds them up.
MVCS_INLINE inline RowSum row_sum(const float* __restrict values, float step, const std::int16_t* __restrict codes,
                                  std::int32_t* __restrict patterns, std::size_t count) {
    std::int64_t sum = 0;
    std::int32_t exceptions = 0;
    for (std::size_t start = 0; start < count; start += summed_block) {
        const std::size_t end = count - start < summed_block ? count : start + summed_block;
        std::int32_t part = 0;
        for (std::size_t i = start; i < end; ++i) {
            const std::int32_t code = codes[i];
            const float error = within_errors(values[i] / step - static_cast<float>(code));
            patterns[i] = std::bit_cast<std::int32_t>(error);
            part += static_cast<std::int32_t>((error * error_units + rounder) - rounder);
            exceptions |= static_cast<std::int32_t>(code == exception_code);
        }
        sum += part;
    }
    return {sum, exceptions != 0};
}

struct Movable {
    std::int32_t count;
    std::int32_t most;
};

// Turns patterns of errors into keys: the larger, the more a move towards `sign` helps; below `first_movable` for
// codes that are not to be moved.
MVCS_INLINE inline Movable row_keys(std::int32_t* __restrict patterns, const std::int16_t* __restrict codes,
                                    std::int32_t sign, std::size_t count) {
    const std::int32_t flip = sign < 0 ? sign_bit : 0;
    const std::int32_t last = sign * largest_code;
    std::int32_t movable = 0;
    std::int32_t most = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const std::int32_t inside = -static_cast<std::int32_t>(codes[i] != last);
        const std::int32_t key = (patterns[i] ^ flip) & inside;
        patterns[i] = key;
        movable += static_cast<std::int32_t>(key >= first_movable);
        most = key > most ? key : most;
    }
    return {movable, most};
}

MVCS_INLINE inline std::int32_t keys_from(const std::int32_t* __restrict keys, std::int32_t least, std::size_t count) {
    std::int32_t found = 0;
    for (std::size_t i = 0; i < count; ++i) found += static_cast<std::int32_t>(keys[i] >= least);
    return found;
}

// All keys from `least` on are chosen, and the first `ties` of those one below.
struct Cut {
    std::int32_t least;
    std::int32_t ties;
};

// Finds the largest `wanted` keys by counting how many lie above a guess: interpolation takes few guesses for errors
// that are spread evenly, halving in between bounds their number for any others.
MVCS_INLINE inline Cut row_cut(const std::int32_t* keys, Movable movable, std::int32_t wanted, std::size_t count) {
    if (movable.count <= wanted) return {first_movable, 0};
    std::int32_t low = first_movable;
    std::int32_t high = movable.most + 1;
    std::int32_t above_low = movable.count;
    std::int32_t above_high = 0;
    for (bool halve = false; high - low > 1; halve = !halve) {
        const std::int64_t width = high - low;
        const std::int64_t share = halve ? width / 2
                                         : width * (2 * std::int64_t{above_low - wanted} + 1) /
                                               (2 * std::int64_t{above_low - above_high} + 2);
        const std::int32_t guess = low + static_cast<std::int32_t>(std::clamp<std::int64_t>(share, 1, width - 1));
        const std::int32_t above = keys_from(keys, guess, count);
        if (above == wanted) return {guess, 0};
        (above > wanted ? low : high) = guess;
        (above > wanted ? above_low : above_high) = above;
    }
    return {high, wanted - above_high};
}

MVCS_INLINE inline void move_codes(std::int16_t* __restrict codes, const std::int32_t* __restrict keys, Cut cut,
                                   std::int32_t sign, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
        codes[i] = static_cast<std::int16_t>(codes[i] + (keys[i] >= cut.least ? sign : 0));
    }
    for (std::size_t i = 0; i < count && cut.ties > 0; ++i) {
        if (keys[i] != cut.least - 1) continue;
        codes[i] = static_cast<std::int16_t>(codes[i] + sign);
        --cut.ties;
    }
}

// Returns how many codes were moved.
MVCS_INLINE inline std::size_t balance_row(const float* values, float step, std::int16_t* codes,
                                           std::int32_t* patterns, std::size_t count) {
    const RowSum sum = row_sum(values, step, codes, patterns, count);
    const std::int64_t size = sum.errors < 0 ? -sum.errors : sum.errors;
    const std::int64_t wanted = (size + (std::int64_t{1} << (error_bits - 1))) >> error_bits;
    if (sum.exceptions || wanted == 0) return 0;
    const std::int32_t sign = sum.errors < 0 ? -1 : 1;
    const Movable movable = row_keys(patterns, codes, sign, count);
    const auto moved = static_cast<std::int32_t>(std::min<std::int64_t>(wanted, movable.count));
    if (moved > 0) move_codes(codes, patterns, row_cut(patterns, movable, moved, count), sign, count);
    return static_cast<std::size_t>(moved);
}

// Calls `row(from, count)` at the active level for what `size` elements of a tensor, from its element `start` on, have
// of each row of `run` elements, and adds up what it returns. Fewer than 8 elements of a row are left out.
template <class Row>
std::size_t in_rows(std::size_t size, std::size_t run, std::size_t start, const Row& row) {
    require(run > 0, "a row has at least one element");
    require(size <= static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()), "too many values");
    const DefaultEnvironment environment;
    std::size_t total = 0;
    if (run < least_balanced) return total;
    at_active_level([&]() MVCS_INLINE {
        std::size_t left = run - start % run;
        for (std::size_t at = 0; at < size; left = run) {
            const std::size_t count = std::min(left, size - at);
            if (count >= least_balanced) total += row(at, count);
            at += count;
        }
    });
    return total;
}

}  // namespace detail

// Moves codes of values by one, so that the errors u - code of each row add up to at most half a step where enough
// codes are more than a quarter of a step off; those that are off most are moved, of equal ones the first. A row is
// `run` elements long; the values begin at element `start` of their tensor, and what they have of a row is balanced by
// itself. Left alone are fewer than 8 elements of a row, and those with an exception among them. Returns how many codes
// were moved. After Nagel et al. 2019, "Data-free quantization", section 4.2, and Guo et al. 2022, "SQuant".
inline std::size_t balance(std::span<const float> values, unsigned step_byte, std::size_t run, std::size_t start,
                           std::span<std::int16_t> codes) {
    require(values.size() == codes.size(), "values and codes differ in length");
    const float step = lattice_step(step_byte);
    Scratch<std::int32_t> patterns(std::min(run, values.size()));
    return detail::in_rows(values.size(), run, start, [&](std::size_t at, std::size_t count) MVCS_INLINE {
        return detail::balance_row(values.data() + at, step, codes.data() + at, patterns.data(), count);
    });
}

}  // namespace mvcs
