// Logarithms to base 2 in fixed point. In integers alone, so that what an encoder decides is the same everywhere.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace mvcs {

// Bits as numbers with 24 digits behind the point; sums over 2^22 symbols stay far below 2^63.
using Price = std::int64_t;
inline constexpr unsigned price_digits = 24;

inline constexpr Price bits_price(std::int64_t bits) { return bits << price_digits; }
inline constexpr std::size_t whole_bits(Price price) { return static_cast<std::size_t>(price >> price_digits); }

namespace detail {

// By repeated squaring: each square doubles the logarithm and brings out one more digit.
constexpr Price log2_by_squaring(std::uint32_t number) {
    const auto whole = static_cast<unsigned>(std::bit_width(number) - 1);
    std::uint64_t mantissa = std::uint64_t{number} << (31 - whole);
    Price digits = whole;
    for (unsigned i = 0; i < price_digits; ++i) {
        mantissa = mantissa * mantissa >> 31;
        const unsigned carry = mantissa >> 32 != 0;
        mantissa >>= carry;
        digits = digits << 1 | static_cast<Price>(carry);
    }
    return digits;
}

inline constexpr unsigned log_table_bits = 12;
using LogTable = std::array<Price, (1U << log_table_bits) + 1>;

inline const LogTable& log_table() {
    static const LogTable table = [] {
        LogTable filled{};
        for (std::uint32_t n = 1; n < filled.size(); ++n) filled[n] = log2_by_squaring(n);
        return filled;
    }();
    return table;
}

}  // namespace detail

// log2 of a number; 0 for 0, so that `count * log2_price(count)` needs no exception. Above 4096 interpolated.
inline Price log2_price(std::uint64_t number) {
    const auto& table = detail::log_table();
    if (number < table.size()) return table[number];
    const auto shift = static_cast<unsigned>(std::bit_width(number)) - detail::log_table_bits;
    const std::uint64_t top = number >> shift;
    const auto rest = static_cast<Price>((number - (top << shift)) << 16 >> shift);
    return table[top] + ((table[top + 1] - table[top]) * rest >> 16) + bits_price(shift);
}

}  // namespace mvcs
