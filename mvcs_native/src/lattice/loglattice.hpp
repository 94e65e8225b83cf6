// Non-negative values to a lattice on their float32 pattern, which is a piecewise linear log2, and back: integers only.
#pragma once

#include <algorithm>
#include <bit>

#include "lattice/lattice.hpp"

namespace mvcs {

inline constexpr std::int32_t zero_code = -32767;
inline constexpr std::int16_t zero_offset = -32768;

// Offsets of rows and columns in quarter steps; an empty list stands for zeros. The values of a call are a run of a
// matrix of `columns` columns that begins with element `start`.
struct LogGrid {
    unsigned scale;
    std::span<const std::int16_t> rows;
    std::span<const std::int16_t> cols;
    std::size_t columns;
    std::size_t start;
};

namespace detail {

inline constexpr std::uint32_t largest_finite = 0x7F7FFFFF;

inline void check_scale(unsigned scale) { require(scale >= 16 && scale <= 24, "a log step is 2^16 to 2^24"); }

inline void check_grid(const LogGrid& grid, std::size_t count) {
    check_scale(grid.scale);
    require(grid.columns > 0, "a matrix has columns");
    require(grid.cols.empty() || grid.cols.size() == grid.columns, "offsets and columns differ in number");
    require(grid.start <= SIZE_MAX - count, "the run does not end");
    require(grid.rows.empty() || count == 0 || (grid.start + count - 1) / grid.columns < grid.rows.size(),
            "a row has no offset");
}

// Calls `run(index, row, column, length)` for each row's part of a run of values, in pieces of at most 2^20.
template <class Run>
MVCS_INLINE inline void for_each_row(const LogGrid& grid, std::size_t count, const Run& run) {
    std::size_t row = grid.start / grid.columns;
    std::size_t column = grid.start % grid.columns;
    for (std::size_t i = 0; i < count;) {
        const std::size_t length = std::min({grid.columns - column, count - i, counted_block});
        run(i, row, column, length);
        i += length;
        column += length;
        if (column == grid.columns) {
            column = 0;
            ++row;
        }
    }
}

MVCS_INLINE inline bool is_positive_normal(std::uint32_t pattern) {
    return pattern - smallest_normal < infinity_bits - smallest_normal;
}

// One row's offset for all its columns, or one of each column beside it.
struct AloneOffset {
    std::int32_t row;
    MVCS_INLINE std::int32_t operator()(std::size_t) const { return row; }
    MVCS_INLINE bool zeros(std::size_t) const { return row == zero_offset; }
};

struct BothOffsets {
    std::int32_t row;
    const std::int16_t* __restrict cols;
    MVCS_INLINE std::int32_t operator()(std::size_t i) const { return row + cols[i]; }
    MVCS_INLINE bool zeros(std::size_t i) const { return (row == zero_offset) | (cols[i] == zero_offset); }
};

// Returns the number of exceptions. Floors differ by whole quarter steps only, so that
// ((pattern + half a step) in quarters - offset) / 4 rounds half up.
template <class Offsets>
MVCS_INLINE inline std::int32_t log_codes(const float* __restrict values, Offsets offsets, unsigned scale,
                                          std::int16_t* __restrict codes, std::size_t count) {
    const std::uint32_t half = 1u << (scale - 1);
    std::int32_t exceptions = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const auto pattern = std::bit_cast<std::uint32_t>(values[i]);
        const auto quarters = static_cast<std::int32_t>((pattern + half) >> (scale - 2));
        const std::int32_t code = (quarters - offsets(i)) >> 2;
        const bool zeros = offsets.zeros(i);
        const bool zero = (pattern & magnitude_bits) == 0;
        const bool kept = !zeros & is_positive_normal(pattern) & (code > zero_code) & (code <= largest_code);
        exceptions += 1 - static_cast<std::int32_t>(kept | zero);
        const std::int32_t otherwise = zero ? (zeros ? 0 : zero_code) : exception_code;
        codes[i] = code_where(kept, code, otherwise);
    }
    return exceptions;
}

MVCS_INLINE inline float log_value(std::int32_t code, std::int32_t offset, bool zeros, unsigned scale) {
    const auto top = static_cast<std::int32_t>(0x80000000u >> (scale - 2));
    std::int32_t quarters = offset + 4 * code;
    quarters = quarters < 0 ? 0 : quarters;
    quarters = quarters > top ? top : quarters;
    std::uint32_t pattern = static_cast<std::uint32_t>(quarters) << (scale - 2);
    pattern = pattern < smallest_normal ? smallest_normal : pattern;
    pattern = pattern > largest_finite ? largest_finite : pattern;
    return std::bit_cast<float>(zeros | (code <= zero_code) ? 0u : pattern);
}

// Without codes all of them are 0.
template <class Offsets>
MVCS_INLINE inline void log_values(const std::int16_t* __restrict codes, Offsets offsets, unsigned scale,
                                   float* __restrict values, std::size_t count) {
    if (codes == nullptr) {
        for (std::size_t i = 0; i < count; ++i) values[i] = log_value(0, offsets(i), offsets.zeros(i), scale);
    } else {
        for (std::size_t i = 0; i < count; ++i) values[i] = log_value(codes[i], offsets(i), offsets.zeros(i), scale);
    }
}

MVCS_INLINE inline void log_row_sum(const float* __restrict values, std::int64_t above, std::int64_t& sum,
                                    std::int64_t& number, std::size_t count) {
    std::int64_t patterns = 0;
    std::int64_t normal = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const auto pattern = std::bit_cast<std::uint32_t>(values[i]);
        const bool counted = is_positive_normal(pattern);
        patterns += counted ? pattern : 0u;
        normal += counted ? 1 : 0;
    }
    sum += patterns - above * normal;
    number += normal;
}

MVCS_INLINE inline void log_column_sums(const float* __restrict values, std::int64_t above, std::int64_t* __restrict sums,
                                        std::int64_t* __restrict numbers, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
        const auto pattern = std::bit_cast<std::uint32_t>(values[i]);
        const bool counted = is_positive_normal(pattern);
        sums[i] += counted ? std::int64_t{pattern} - above : 0;
        numbers[i] += counted ? 1 : 0;
    }
}

}  // namespace detail

// Writes the code of each value: (pattern - offsets) / 2^scale to the nearest, the larger of two; -32767 for zeros, or
// 0 where an offset of -32768 says that all is zero; -32768 for what is negative, subnormal, not finite or out of
// reach. Returns how many of these.
inline std::size_t log_lattice(std::span<const float> values, const LogGrid& grid, std::span<std::int16_t> codes) {
    require(values.size() == codes.size(), "values and codes differ in length");
    detail::check_grid(grid, values.size());
    std::size_t exceptions = 0;
    at_active_level([&]() MVCS_INLINE {
        detail::for_each_row(grid, values.size(), [&](auto i, auto row, auto column, auto length) MVCS_INLINE {
            const std::int32_t above = grid.rows.empty() ? 0 : grid.rows[row];
            const float* const from = &values[i];
            std::int16_t* const to = &codes[i];
            const auto found = grid.cols.empty()
                ? detail::log_codes(from, detail::AloneOffset{above}, grid.scale, to, length)
                : detail::log_codes(from, detail::BothOffsets{above, &grid.cols[column]}, grid.scale, to, length);
            exceptions += static_cast<std::size_t>(found);
        });
    });
    return exceptions;
}

// Writes the values of codes; of an empty list of codes all are 0. Exceptions become 0 for the caller to replace.
inline void log_unlattice(std::span<const std::int16_t> codes, const LogGrid& grid, std::span<float> values) {
    require(codes.empty() || values.size() == codes.size(), "values and codes differ in length");
    detail::check_grid(grid, values.size());
    at_active_level([&]() MVCS_INLINE {
        detail::for_each_row(grid, values.size(), [&](auto i, auto row, auto column, auto length) MVCS_INLINE {
            const std::int32_t above = grid.rows.empty() ? 0 : grid.rows[row];
            const std::int16_t* const from = codes.empty() ? nullptr : &codes[i];
            float* const to = &values[i];
            if (grid.cols.empty()) {
                detail::log_values(from, detail::AloneOffset{above}, grid.scale, to, length);
            } else {
                detail::log_values(from, detail::BothOffsets{above, &grid.cols[column]}, grid.scale, to, length);
            }
        });
    });
}

// Adds up patterns, less their row's offset, of the positive normal values of each row or each column.
inline void log_sums(std::span<const float> values, const LogGrid& grid, bool by_column,
                     std::span<std::int64_t> sums, std::span<std::int64_t> counts) {
    detail::check_grid(grid, values.size());
    require(sums.size() == counts.size(), "sums and counts differ in number");
    const std::size_t needed = values.empty() ? 0 : (grid.start + values.size() - 1) / grid.columns + 1;
    require(sums.size() >= (by_column ? grid.columns : needed), "a row or column has no sum");
    at_active_level([&]() MVCS_INLINE {
        detail::for_each_row(grid, values.size(), [&](auto i, auto row, auto column, auto length) MVCS_INLINE {
            const std::int64_t above = grid.rows.empty() ? 0 : std::int64_t{grid.rows[row]} * (1 << (grid.scale - 2));
            if (by_column) {
                detail::log_column_sums(&values[i], above, &sums[column], &counts[column], length);
            } else {
                detail::log_row_sum(&values[i], above, sums[row], counts[row], length);
            }
        });
    });
}

}  // namespace mvcs
