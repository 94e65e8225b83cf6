// Exact weighted k-means of points on a line.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/span.hpp"

namespace mvcs {

inline constexpr std::size_t kmeans_max_points = 65536;
inline constexpr std::size_t kmeans_max_clusters = 255;

namespace detail {

// Prefix sums that give the weighted squared error of any run of points in constant time.
class RunCost {
  public:
    RunCost(std::span<const double> points, std::span<const double> weights)
        : weight_(points.size() + 1), first_(points.size() + 1), second_(points.size() + 1) {
        for (std::size_t i = 0; i < points.size(); ++i) {
            const double weighted = weights[i] * points[i];
            weight_[i + 1] = weight_[i] + weights[i];
            first_[i + 1] = first_[i] + weighted;
            second_[i + 1] = second_[i] + weighted * points[i];
        }
    }

    // Points start .. last, both included.
    double operator()(std::size_t start, std::size_t last) const {
        const double weight = weight_[last + 1] - weight_[start];
        if (!(weight > 0.0)) return 0.0;
        const double first = first_[last + 1] - first_[start];
        const double second = second_[last + 1] - second_[start];
        return std::max(0.0, second - first * first / weight);
    }

  private:
    std::vector<double> weight_, first_, second_;
};

// One layer of the dynamic programme: the least cost of points 0 .. last in one run more than `before` had.
struct Layer {
    const RunCost& cost;
    const std::vector<double>& before;
    std::vector<double>& now;
    std::span<std::uint16_t> starts;

    // The best start of the last run never moves left as `last` grows, so the middle one splits the search.
    void solve(std::size_t from, std::size_t to, std::size_t lowest, std::size_t highest) {
        if (from >= to) return;
        const std::size_t middle = from + (to - from) / 2;
        double best = std::numeric_limits<double>::infinity();
        std::size_t best_start = lowest;
        for (std::size_t start = lowest; start <= std::min(middle, highest); ++start) {
            const double total = before[start - 1] + cost(start, middle);
            if (total < best) {
                best = total;
                best_start = start;
            }
        }
        now[middle] = best;
        starts[middle] = static_cast<std::uint16_t>(best_start);
        solve(from, middle, lowest, best_start);
        solve(middle + 1, to, best_start, highest);
    }
};

inline void check_points(std::span<const double> points, std::span<const double> weights) {
    require(points.size() == weights.size(), "points and weights differ in length");
    require(points.size() <= kmeans_max_points, "more than 65536 points");
    for (std::size_t i = 0; i < points.size(); ++i) {
        require(std::isfinite(points[i]) && std::isfinite(weights[i]) && weights[i] >= 0.0,
                "points and weights must be finite, weights not negative");
        require(i == 0 || points[i - 1] <= points[i], "points are not ascending");
    }
}

}  // namespace detail

// Returns the index of the first point of each of min(k, n) clusters; of equally good starts the smallest.
inline std::vector<std::uint32_t> kmeans(std::span<const double> points, std::span<const double> weights,
                                         std::size_t k) {
    detail::check_points(points, weights);
    require(k >= 1 && k <= kmeans_max_clusters, "k is not in 1 .. 255");
    const std::size_t n = points.size();
    const std::size_t clusters = std::min(k, n);
    std::vector<std::uint32_t> starts(clusters);
    if (clusters <= 1) return starts;

    const detail::RunCost cost(points, weights);
    std::vector<double> before(n), now(n);
    for (std::size_t last = 0; last < n; ++last) before[last] = cost(0, last);
    std::vector<std::uint16_t> best(clusters * n);
    for (std::size_t cluster = 1; cluster < clusters; ++cluster) {
        detail::Layer layer{cost, before, now, std::span(best).subspan(cluster * n, n)};
        layer.solve(cluster, n, cluster, n - 1);
        std::swap(before, now);
    }
    std::size_t last = n - 1;
    for (std::size_t cluster = clusters - 1; cluster > 0; --cluster) {
        starts[cluster] = best[cluster * n + last];
        last = starts[cluster] - 1;
    }
    return starts;
}

}  // namespace mvcs
