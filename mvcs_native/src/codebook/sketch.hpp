// The integer log-space sketch: how many values, and between which two, share the top 16 bits of their pattern.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "base/span.hpp"

namespace mvcs {

inline constexpr std::size_t sketch_buckets = 65536;

struct SketchView {
    std::span<std::uint64_t> counts;
    std::span<std::uint32_t> low;
    std::span<std::uint32_t> high;
};

namespace detail {

inline constexpr std::size_t sketch_block = std::size_t{1} << 31;  // a bucket of a block counts in 32 bits
inline constexpr std::size_t few_values = std::size_t{1} << 16;    // fewer do not pay for a table of their own

// A bucket in one word, so that a value touches one line of the cache; extremes by the lower 16 bits alone.
struct SketchBucket {
    std::uint32_t count = 0;
    std::uint16_t low = 0xFFFF;
    std::uint16_t high = 0;
};

// Branches, because new extremes soon become rare and a store for each value would not.
inline void sketch_one(SketchBucket& bucket, std::uint16_t lower) {
    ++bucket.count;
    if (lower < bucket.low) bucket.low = lower;
    if (lower > bucket.high) bucket.high = lower;
}

inline void sketch_few(std::span<const float> values, const SketchView& view) {
    for (const float value : values) {
        const auto pattern = std::bit_cast<std::uint32_t>(value);
        const std::size_t bucket = pattern >> 16;
        ++view.counts[bucket];
        if (pattern < view.low[bucket]) view.low[bucket] = pattern;
        if (pattern > view.high[bucket]) view.high[bucket] = pattern;
    }
}

// Two values a load.
inline void sketch_many(std::span<const float> values, std::span<SketchBucket> buckets) {
    std::size_t i = 0;
    for (; i + 2 <= values.size(); i += 2) {
        std::uint64_t pair;
        std::memcpy(&pair, &values[i], sizeof pair);
        sketch_one(buckets[(pair >> 16) & 0xFFFF], static_cast<std::uint16_t>(pair));
        sketch_one(buckets[pair >> 48], static_cast<std::uint16_t>(pair >> 32));
    }
    for (; i < values.size(); ++i) {
        const auto pattern = std::bit_cast<std::uint32_t>(values[i]);
        sketch_one(buckets[pattern >> 16], static_cast<std::uint16_t>(pattern));
    }
}

inline void sketch_merge(std::span<const SketchBucket> buckets, const SketchView& view) {
    for (std::size_t bucket = 0; bucket < sketch_buckets; ++bucket) {
        if (buckets[bucket].count == 0) continue;
        const auto upper = static_cast<std::uint32_t>(bucket << 16);
        view.counts[bucket] += buckets[bucket].count;
        view.low[bucket] = std::min(view.low[bucket], upper | buckets[bucket].low);
        view.high[bucket] = std::max(view.high[bucket], upper | buckets[bucket].high);
    }
}

}  // namespace detail

// Adds the values to the sketch. Only integers are touched, so the order of values and machines is irrelevant.
inline void sketch(std::span<const float> values, SketchView view) {
    require(view.counts.size() == sketch_buckets && view.low.size() == sketch_buckets &&
                view.high.size() == sketch_buckets,
            "a sketch has 65536 buckets");
    if (values.size() < detail::few_values) return detail::sketch_few(values, view);
    for (std::size_t start = 0; start < values.size(); start += detail::sketch_block) {
        std::vector<detail::SketchBucket> buckets(sketch_buckets);
        const std::size_t count = std::min(detail::sketch_block, values.size() - start);
        detail::sketch_many(values.subspan(start, count), buckets);
        detail::sketch_merge(buckets, view);
    }
}

}  // namespace mvcs
