// The integer log-space sketch: how many values, and between which two, share the top 16 bits of their pattern.
#pragma once

#include <algorithm>
#include <bit>

#include "span.hpp"

namespace mvcs {

inline constexpr std::size_t sketch_buckets = 65536;

struct SketchView {
    std::span<std::uint64_t> counts;
    std::span<std::uint32_t> low;
    std::span<std::uint32_t> high;
};

// Adds the values to the sketch. Only integers are touched, so the order of values and machines is irrelevant.
inline void sketch(std::span<const float> values, SketchView view) {
    require(view.counts.size() == sketch_buckets && view.low.size() == sketch_buckets &&
                view.high.size() == sketch_buckets,
            "a sketch has 65536 buckets");
    for (const float value : values) {
        const auto pattern = std::bit_cast<std::uint32_t>(value);
        const std::size_t bucket = pattern >> 16;
        ++view.counts[bucket];
        view.low[bucket] = std::min(view.low[bucket], pattern);
        view.high[bucket] = std::max(view.high[bucket], pattern);
    }
}

}  // namespace mvcs
