// Sums over values in double precision that come out the same at every level: sixteen fixed lanes, added in one order.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "base/environment.hpp"
#include "base/levels.hpp"

namespace mvcs {

struct ErrorSums {
    double largest;
    double squares;
    double scale;
};

struct ProgressSums {
    double kept;
    double moved;
};

struct RootSums {
    double total;
    std::int64_t count;
};

namespace detail {

inline constexpr std::size_t sum_lanes = 16;

using SumLanes = std::array<double, sum_lanes>;

inline double total(const SumLanes& lanes) {
    double sum = 0.0;
    for (const double lane : lanes) sum += lane;
    return sum;
}

MVCS_INLINE inline bool finite(float value) {
    return (std::bit_cast<std::uint32_t>(value) & 0x7FFFFFFF) < 0x7F800000;
}

// Calls `add(index, lane)` for every index; the lane is the index modulo 16.
template <class Add>
MVCS_INLINE inline void in_lanes(std::size_t count, const Add& add) {
    const std::size_t whole = count / sum_lanes * sum_lanes;
    for (std::size_t i = 0; i < whole; i += sum_lanes) {
        for (std::size_t lane = 0; lane < sum_lanes; ++lane) add(i + lane, lane);
    }
    for (std::size_t i = whole; i < count; ++i) add(i, i - whole);
}

}  // namespace detail

namespace detail {

inline constexpr std::size_t measured_block = 1024;

MVCS_INLINE inline bool all_finite(const float* values, std::size_t count) {
    std::uint32_t largest = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(values[i]) & 0x7FFFFFFF;
        largest = magnitude > largest ? magnitude : largest;
    }
    return largest < 0x7F800000;
}

struct ErrorLanes {
    SumLanes largest{}, squares{}, scale{};

    MVCS_INLINE void add(std::size_t lane, double error, double size) {
        largest[lane] = error > largest[lane] ? error : largest[lane];
        squares[lane] += error * error;
        scale[lane] += size * size;
    }

    // Works on copies of the lanes, which then stay in registers.
    MVCS_INLINE void add_finite(const float* __restrict exact, const float* __restrict restored, std::size_t count) {
        ErrorLanes lanes = *this;
        in_lanes(count, [&](std::size_t i, std::size_t lane) MVCS_INLINE {
            const double size = static_cast<double>(exact[i]);
            lanes.add(lane, std::fabs(static_cast<double>(restored[i]) - size), size);
        });
        *this = lanes;
    }

    MVCS_INLINE void add_any(const float* exact, const float* restored, std::size_t count) {
        in_lanes(count, [&](std::size_t i, std::size_t lane) MVCS_INLINE {
            const float value = exact[i];
            const float other = restored[i];
            const bool same = std::bit_cast<std::uint32_t>(value) == std::bit_cast<std::uint32_t>(other);
            const bool both = finite(value) & finite(other);
            const double difference = std::fabs(static_cast<double>(other) - static_cast<double>(value));
            const double error = both ? difference : (same ? 0.0 : std::numeric_limits<double>::infinity());
            add(lane, error, finite(value) ? static_cast<double>(value) : 0.0);
        });
    }
};

}  // namespace detail

// The largest |e|, the sum of e^2 and the sum of w^2 of values w and errors e = restored - w. A value that is not
// finite is no error when its bits came back, else an infinite one, as is a finite one that came back otherwise.
inline ErrorSums error_sums(std::span<const float> exact, std::span<const float> restored) {
    require(exact.size() == restored.size(), "exact and restored values differ in length");
    const DefaultEnvironment environment;
    detail::ErrorLanes lanes;
    at_active_level([&]() MVCS_INLINE {
        for (std::size_t start = 0; start < exact.size(); start += detail::measured_block) {
            const std::size_t count = std::min(detail::measured_block, exact.size() - start);
            const float* const values = exact.data() + start;
            const float* const others = restored.data() + start;
            if (detail::all_finite(values, count) && detail::all_finite(others, count)) {
                lanes.add_finite(values, others, count);
            } else {
                lanes.add_any(values, others, count);
            }
        }
    });
    double most = 0.0;
    for (const double lane : lanes.largest) most = lane > most ? lane : most;
    return {most, detail::total(lanes.squares), detail::total(lanes.scale)};
}

// With moves m = now - before and kept moves k = restored - before: the sums of k * m and of m^2, over the elements
// of which all three are finite.
inline ProgressSums progress_sums(std::span<const float> restored, std::span<const float> now,
                                  std::span<const float> before) {
    require(restored.size() == now.size() && now.size() == before.size(), "the three lists differ in length");
    const DefaultEnvironment environment;
    detail::SumLanes kept{}, moved{};
    at_active_level([&]() MVCS_INLINE {
        detail::in_lanes(now.size(), [&](std::size_t i, std::size_t lane) MVCS_INLINE {
            const bool counted = detail::finite(restored[i]) & detail::finite(now[i]) & detail::finite(before[i]);
            const double from = static_cast<double>(before[i]);
            const double move = counted ? static_cast<double>(now[i]) - from : 0.0;
            const double stays = counted ? static_cast<double>(restored[i]) - from : 0.0;
            kept[lane] += stays * move;
            moved[lane] += move * move;
        });
    });
    return {detail::total(kept), detail::total(moved)};
}

// The sum of |m| / sqrt(v), each rounded to float32, and how many there are: finite m, and v above zero and finite.
inline RootSums root_sums(std::span<const float> values, std::span<const float> roots) {
    require(values.size() == roots.size(), "values and roots differ in length");
    const DefaultEnvironment environment;
    detail::SumLanes totals{};
    std::array<std::int64_t, detail::sum_lanes> counts{};
    at_active_level([&]() MVCS_INLINE {
        detail::in_lanes(values.size(), [&](std::size_t i, std::size_t lane) MVCS_INLINE {
            const float ratio = std::fabs(values[i]) / std::sqrt(roots[i]);
            const bool counted = detail::finite(ratio) & detail::finite(roots[i]) & (roots[i] > 0.0f);
            totals[lane] += counted ? static_cast<double>(ratio) : 0.0;
            counts[lane] += counted ? 1 : 0;
        });
    });
    std::int64_t count = 0;
    for (const std::int64_t lane : counts) count += lane;
    return {detail::total(totals), count};
}

}  // namespace mvcs
