// Eigenvalues and eigenvectors of a small symmetric matrix without negative ones.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>

#include "base/environment.hpp"
#include "base/levels.hpp"

namespace mvcs {

inline constexpr std::size_t largest_order = 512;

namespace detail {

inline constexpr int most_sweeps = 30;
inline constexpr double orthogonal = 1e-12;  // of the product of the lengths

// Four sums of every fourth, so that they vectorise; all levels add in this order.
MVCS_INLINE inline double dot(const double* __restrict left, const double* __restrict right, std::size_t count) {
    double parts[4] = {};
    std::size_t i = 0;
    for (; i + 4 <= count; i += 4) {
        for (std::size_t part = 0; part < 4; ++part) parts[part] += left[i + part] * right[i + part];
    }
    for (; i < count; ++i) parts[0] += left[i] * right[i];
    return (parts[0] + parts[1]) + (parts[2] + parts[3]);
}

// Turns two rows in their plane so that they are orthogonal; returns whether they were not.
MVCS_INLINE inline bool turn(double* __restrict left, double* __restrict right, std::size_t count) {
    const double both = dot(left, right, count);
    const double first = dot(left, left, count);
    const double second = dot(right, right, count);
    if (!(std::fabs(both) > orthogonal * std::sqrt(first * second))) return false;
    const double slope = (second - first) / (2.0 * both);
    const double tangent = std::copysign(1.0, slope) / (std::fabs(slope) + std::sqrt(1.0 + slope * slope));
    const double cosine = 1.0 / std::sqrt(1.0 + tangent * tangent);
    const double sine = cosine * tangent;
    for (std::size_t i = 0; i < count; ++i) {
        const double old = left[i];
        left[i] = cosine * old - sine * right[i];
        right[i] = sine * old + cosine * right[i];
    }
    return true;
}

MVCS_INLINE inline bool sweep(double* rows, std::size_t order) {
    bool turned = false;
    for (std::size_t i = 0; i + 1 < order; ++i) {
        for (std::size_t j = i + 1; j < order; ++j) turned |= turn(rows + i * order, rows + j * order, order);
    }
    return turned;
}

}  // namespace detail

// One-sided Jacobi (Hestenes 1958): rows are turned in pairs until all are orthogonal; they are then eigenvectors times
// their eigenvalues. `rows` is the matrix at first and its eigenvectors afterwards, zeros for an eigenvalue of 0; in no
// order. `values` are their eigenvalues. Slow from an order of some hundreds on.
inline void spectrum(std::span<double> rows, std::span<double> values) {
    const std::size_t order = values.size();
    require(order <= largest_order && rows.size() == order * order, "a matrix is square, of an order up to 512");
    const DefaultEnvironment environment;
    at_active_level([&]() MVCS_INLINE {
        for (int done = 0; done < detail::most_sweeps && detail::sweep(rows.data(), order); ++done) {
        }
        for (std::size_t i = 0; i < order; ++i) {
            double* const row = rows.data() + i * order;
            values[i] = std::sqrt(detail::dot(row, row, order));
            for (std::size_t j = 0; j < order; ++j) row[j] = values[i] > 0.0 ? row[j] / values[i] : 0.0;
        }
    });
}

}  // namespace mvcs
