// Products of a matrix with thin ones, which find its leading directions and take them away.
#pragma once

#include <algorithm>
#include <span>

#include "base/environment.hpp"
#include "base/levels.hpp"

namespace mvcs {

inline constexpr std::size_t thin_lanes = 16;  // a thin matrix has a multiple of as many columns

// A matrix of float32, row by row.
template <class Element>
struct Matrix {
    std::span<Element> values;
    std::size_t columns;

    std::size_t rows() const { return values.size() / columns; }
    Element* row(std::size_t i) const { return values.data() + i * columns; }
};

namespace detail {

template <class Element>
void check_matrix(const Matrix<Element>& matrix) {
    require(matrix.columns > 0 && matrix.values.size() % matrix.columns == 0, "a matrix has whole rows");
}

template <class Element>
void check_thin(const Matrix<Element>& matrix, std::size_t rows) {
    check_matrix(matrix);
    require(matrix.columns % thin_lanes == 0, "a thin matrix has a multiple of 16 columns");
    require(matrix.rows() == rows, "matrices do not fit together");
}

// Writes the sums over j of x[i][j] * factor[j][lane] for some rows, at most four, and 16 lanes.
template <std::size_t rows>
MVCS_INLINE inline void row_sums(const float* __restrict x, std::size_t columns, const float* __restrict factor,
                                 std::size_t width, float* __restrict sums) {
    // Arrays of their own, since the compiler keeps those in registers.
    float first[thin_lanes] = {};
    float second[thin_lanes] = {};
    float third[thin_lanes] = {};
    float fourth[thin_lanes] = {};
    for (std::size_t j = 0; j < columns; ++j) {
        const float* const from = factor + j * width;
        for (std::size_t lane = 0; lane < thin_lanes; ++lane) {
            first[lane] += x[j] * from[lane];
            if constexpr (rows > 1) second[lane] += x[columns + j] * from[lane];
            if constexpr (rows > 2) third[lane] += x[2 * columns + j] * from[lane];
            if constexpr (rows > 3) fourth[lane] += x[3 * columns + j] * from[lane];
        }
    }
    std::copy_n(first, thin_lanes, sums);
    if constexpr (rows > 1) std::copy_n(second, thin_lanes, sums + width);
    if constexpr (rows > 2) std::copy_n(third, thin_lanes, sums + 2 * width);
    if constexpr (rows > 3) std::copy_n(fourth, thin_lanes, sums + 3 * width);
}

// Adds x[i][j] * factor[i][lane] of some rows, at most four, to 16 sums of every column.
template <std::size_t rows>
MVCS_INLINE inline void add_columns(const float* __restrict x, std::size_t columns, const float* __restrict factor,
                                    std::size_t width, float* __restrict sums) {
    float held[rows][thin_lanes];
    for (std::size_t i = 0; i < rows; ++i) std::copy_n(factor + i * width, thin_lanes, held[i]);
    for (std::size_t j = 0; j < columns; ++j) {
        float* const to = sums + j * width;
        for (std::size_t lane = 0; lane < thin_lanes; ++lane) {
            float sum = x[j] * held[0][lane];
            for (std::size_t i = 1; i < rows; ++i) sum += x[i * columns + j] * held[i][lane];
            to[lane] += sum;
        }
    }
}

inline constexpr std::size_t subtracted_block = 1024;  // values that stay in the first cache

MVCS_INLINE inline void subtract_row(const float* __restrict factor, const Matrix<const float>& cols, std::size_t first,
                                     float* __restrict values, std::size_t count) {
    for (std::size_t k = 0; k < cols.rows(); ++k) {
        const float* const from = cols.row(k) + first;
        for (std::size_t j = 0; j < count; ++j) values[j] -= factor[k] * from[j];
    }
}

}  // namespace detail

// Writes sums[i][k], the sum over j of values[i][j] * factor[j][k]. All levels add in one order.
inline void times_columns(const Matrix<const float>& values, const Matrix<const float>& factor,
                          const Matrix<float>& sums) {
    detail::check_matrix(values);
    detail::check_thin(factor, values.columns);
    detail::check_thin(sums, values.rows());
    require(sums.columns == factor.columns, "thin matrices differ in width");
    const DefaultEnvironment environment;
    const std::size_t width = factor.columns;
    at_active_level([&]() MVCS_INLINE {
        for (std::size_t lane = 0; lane < width; lane += thin_lanes) {
            const float* const from = factor.row(0) + lane;
            std::size_t i = 0;
            for (; i + 4 <= values.rows(); i += 4) {
                detail::row_sums<4>(values.row(i), values.columns, from, width, sums.row(i) + lane);
            }
            for (; i < values.rows(); ++i) {
                detail::row_sums<1>(values.row(i), values.columns, from, width, sums.row(i) + lane);
            }
        }
    });
}

// Writes sums[j][k], the sum over i of values[i][j] * factor[i][k].
inline void times_rows(const Matrix<const float>& values, const Matrix<const float>& factor,
                       const Matrix<float>& sums) {
    detail::check_matrix(values);
    detail::check_thin(factor, values.rows());
    detail::check_thin(sums, values.columns);
    require(sums.columns == factor.columns, "thin matrices differ in width");
    const DefaultEnvironment environment;
    const std::size_t width = factor.columns;
    std::fill(sums.values.begin(), sums.values.end(), 0.0f);
    at_active_level([&]() MVCS_INLINE {
        for (std::size_t lane = 0; lane < width; lane += thin_lanes) {
            float* const to = sums.row(0) + lane;
            std::size_t i = 0;
            for (; i + 4 <= values.rows(); i += 4) {
                detail::add_columns<4>(values.row(i), values.columns, factor.row(i) + lane, width, to);
            }
            for (; i < values.rows(); ++i) {
                detail::add_columns<1>(values.row(i), values.columns, factor.row(i) + lane, width, to);
            }
        }
    });
}

// Takes from values[i][j] the sum over k of rows[i][k] * cols[k][j].
inline void less_product(const Matrix<float>& values, const Matrix<const float>& rows,
                         const Matrix<const float>& cols) {
    detail::check_matrix(values);
    detail::check_thin(rows, values.rows());
    detail::check_matrix(cols);
    require(cols.columns == values.columns && cols.rows() == rows.columns, "matrices do not fit together");
    const DefaultEnvironment environment;
    at_active_level([&]() MVCS_INLINE {
        for (std::size_t i = 0; i < values.rows(); ++i) {
            for (std::size_t first = 0; first < values.columns; first += detail::subtracted_block) {
                const std::size_t count = std::min(detail::subtracted_block, values.columns - first);
                detail::subtract_row(rows.row(i), cols, first, values.row(i) + first, count);
            }
        }
    });
}

}  // namespace mvcs
