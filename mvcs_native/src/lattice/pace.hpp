// Codes of a lattice moved by one, so that no row of a weight lags behind where training moves it.
#pragma once

#include "lattice/balance.hpp"

namespace mvcs {

namespace detail {

// Masks of 32 bits vectorise with the floats beside them.
MVCS_INLINE inline std::int32_t mask_of(bool chosen) { return -static_cast<std::int32_t>(chosen); }

MVCS_INLINE inline float size_of(float value) {
    return std::bit_cast<float>(std::bit_cast<std::int32_t>(value) & ~sign_bit);
}

// What of a float its upper half tells: bfloat16, rounded towards zero.
inline constexpr std::uint32_t upper_bits = 0xFFFF0000;

// A value that its upper half does not tell from the past one has not moved.
MVCS_INLINE inline float move_since(std::uint16_t past, float value) {
    const auto before = std::bit_cast<float>(static_cast<std::uint32_t>(past) << 16);
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) & upper_bits) - before;
}

// The row's largest move as a bit pattern, above all finite ones where a move is not finite.
MVCS_INLINE inline std::int32_t largest_move(const float* __restrict values, const std::uint16_t* __restrict past,
                                             std::size_t count) {
    std::int32_t most = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const auto size =
            static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(move_since(past[i], values[i])) & magnitude_bits);
        most = size > most ? size : most;
    }
    return most;
}

// What a row lags behind in all, in units of 2^-20 steps of its largest move, and what moves of its codes can make up.
struct Lag {
    std::int64_t total;
    std::int64_t movable;
    std::int32_t count;
    std::int32_t most;
    bool exceptions;
};

// Writes for each code a key, the larger, the more of the lag is its own, and below 1 where it is not to be moved; and
// what a move makes up, with the move's sign.
MVCS_INLINE inline Lag row_lag(const float* __restrict values, const std::uint16_t* __restrict past, float step,
                               float largest, const std::int16_t* __restrict codes, std::int32_t* __restrict keys,
                               std::int32_t* __restrict gains, std::size_t count) {
    Lag lag{};
    std::int32_t fitting = 0;
    std::int32_t most = 0;
    std::int32_t exceptions = 0;
    for (std::size_t start = 0; start < count; start += summed_block) {
        const std::size_t end = count - start < summed_block ? count : start + summed_block;
        std::int32_t total = 0;
        std::int32_t movable = 0;
        for (std::size_t i = start; i < end; ++i) {
            const std::int32_t code = codes[i];
            const float error = within_errors(values[i] / step - static_cast<float>(code));
            const float move = move_since(past[i], values[i]) / largest;
            const float own = error * move;
            const auto off = std::bit_cast<std::int32_t>(error);
            const std::int32_t sign = (off >> 31) | 1;
            const auto gain = static_cast<std::int32_t>((size_of(move) * error_units + rounder) - rounder);
            const std::int32_t fits = mask_of(std::bit_cast<std::int32_t>(own) > 0) &
                                      mask_of((off & ~sign_bit) >= first_movable) &
                                      mask_of(code != sign * largest_code) & mask_of(gain > 0);
            const std::int32_t key = std::bit_cast<std::int32_t>(own) & fits;
            keys[i] = key;
            gains[i] = (sign * gain) & fits;
            total += static_cast<std::int32_t>((own * error_units + rounder) - rounder);
            movable += gain & fits;
            fitting -= fits;
            most = key > most ? key : most;
            exceptions |= static_cast<std::int32_t>(code == exception_code);
        }
        lag.total += total;
        lag.movable += movable;
    }
    return {lag.total, lag.movable, fitting, most, exceptions != 0};
}

struct Gained {
    std::int64_t sum;
    std::int32_t count;
};

// What moving the codes of all keys from `least` on makes up.
MVCS_INLINE inline Gained gained_from(const std::int32_t* __restrict keys, const std::int32_t* __restrict gains,
                                      std::int32_t least, std::size_t count) {
    std::int64_t sum = 0;
    std::int32_t found = 0;
    for (std::size_t start = 0; start < count; start += summed_block) {
        const std::size_t end = count - start < summed_block ? count : start + summed_block;
        std::int32_t part = 0;
        for (std::size_t i = start; i < end; ++i) {
            const std::int32_t taken = mask_of(keys[i] >= least);
            const std::int32_t size = gains[i] < 0 ? -gains[i] : gains[i];
            part += size & taken;
            found -= taken;
        }
        sum += part;
    }
    return {sum, found};
}

// All keys from `least` on are chosen, which make up `gained`. Then those from `next` on, in order, as long as half of
// what each makes up still lags.
struct PaceCut {
    std::int32_t least;
    std::int32_t next;
    std::int64_t gained;
};

MVCS_INLINE inline PaceCut pace_cut(const std::int32_t* keys, const std::int32_t* gains, const Lag& lag,
                                    std::size_t count) {
    std::int32_t low = 1;
    std::int32_t high = lag.most + 1;
    Gained above_low{lag.movable, lag.count};
    Gained above_high{0, 0};
    if (above_low.sum < lag.total) return {low, low, above_low.sum};
    for (bool halve = false; high - low > 1 && above_low.count - above_high.count > 1; halve = !halve) {
        const auto width = static_cast<double>(high - low);
        const auto share = halve ? 0.5
                                 : static_cast<double>(above_low.sum - lag.total) /
                                       static_cast<double>(above_low.sum - above_high.sum);
        const std::int32_t guess = low + std::clamp(static_cast<std::int32_t>(width * share), 1, high - low - 1);
        const Gained above = gained_from(keys, gains, guess, count);
        (above.sum < lag.total ? high : low) = guess;
        (above.sum < lag.total ? above_high : above_low) = above;
    }
    return {high, low, above_high.sum};
}

MVCS_INLINE inline std::size_t follow(std::int16_t* __restrict codes, const std::int32_t* __restrict keys,
                                      const std::int32_t* __restrict gains, PaceCut cut, std::int64_t total,
                                      std::size_t count) {
    std::int32_t moved = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const std::int32_t taken = mask_of(keys[i] >= cut.least);
        codes[i] = static_cast<std::int16_t>(codes[i] + (((gains[i] >> 31) | 1) & taken));
        moved -= taken;
    }
    for (std::size_t i = 0; i < count && cut.least > cut.next; ++i) {
        if (keys[i] < cut.next || keys[i] >= cut.least) continue;
        const std::int64_t gain = gains[i] < 0 ? -gains[i] : gains[i];
        if (2 * cut.gained + gain >= 2 * total) break;
        codes[i] = static_cast<std::int16_t>(codes[i] + (gains[i] < 0 ? -1 : 1));
        cut.gained += gain;
        ++moved;
    }
    return static_cast<std::size_t>(moved);
}

// Returns how many codes were moved.
MVCS_INLINE inline std::size_t pace_row(const float* values, const std::uint16_t* past, float step,
                                        std::int16_t* codes, std::int32_t* keys, std::int32_t* gains, std::size_t count) {
    const std::int32_t most = largest_move(values, past, count);
    if (most == 0 || static_cast<std::uint32_t>(most) >= infinity_bits) return 0;
    const Lag lag = row_lag(values, past, step, std::bit_cast<float>(most), codes, keys, gains, count);
    if (lag.exceptions || lag.total <= 0 || lag.count == 0) return 0;
    return follow(codes, keys, gains, pace_cut(keys, gains, lag, count), lag.total, count);
}

}  // namespace detail

// Moves codes of values by one, so that no row lags behind: with errors u - code and moves value - past, the sum of
// their products over a row is brought from above zero to near zero. Codes whose own product is largest are moved, of
// equal ones the first, and none that is off by a quarter of a step or less. Rows are those of `balance`, and the same
// ones are left alone, as are rows that did not move or by more than is finite. Of the past only the upper halves of
// floats are known. Returns how many codes were moved.
inline std::size_t keep_pace(std::span<const float> values, std::span<const std::uint16_t> past, unsigned step_byte,
                             std::size_t run, std::size_t start, std::span<std::int16_t> codes) {
    require(values.size() == codes.size(), "values and codes differ in length");
    require(values.size() == past.size(), "values and those of the past differ in length");
    const float step = lattice_step(step_byte);
    Scratch<std::int32_t> keys(std::min(run, values.size()));
    Scratch<std::int32_t> gains(std::min(run, values.size()));
    return detail::in_rows(values.size(), run, start, [&](std::size_t at, std::size_t count) MVCS_INLINE {
        return detail::pace_row(values.data() + at, past.data() + at, step, codes.data() + at, keys.data(), gains.data(),
                                count);
    });
}

}  // namespace mvcs
