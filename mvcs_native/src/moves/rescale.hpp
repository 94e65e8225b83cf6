// Lattice codes from one step to another: a step is k * 2^e, so that codes move between steps in integers.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "base/codes.hpp"
#include "base/span.hpp"

namespace mvcs {

namespace detail {

// Beyond this power of two every code but 0 leaves the range, or becomes 0.
inline constexpr unsigned longest_shift = 20;

// |code| * old / new for steps as bytes: k = 4 + the two low bits, e = the others.
class StepRatio {
  public:
    StepRatio(std::uint8_t old_step, std::uint8_t new_step) {
        const int shift = (old_step >> 2) - (new_step >> 2);
        const auto up = std::min(static_cast<unsigned>(std::max(shift, 0)), longest_shift);
        const auto down = std::min(static_cast<unsigned>(std::max(-shift, 0)), longest_shift);
        numerator_ = std::uint64_t{4U + (old_step & 3U)} << up;
        denominator_ = std::uint64_t{4U + (new_step & 3U)} << down;
    }

    // The nearest whole number, of two the even one, at most 32767.
    std::int16_t operator()(std::uint32_t magnitude) const {
        const std::uint64_t product = magnitude * numerator_;
        std::uint64_t quotient = product / denominator_;
        const std::uint64_t twice = 2 * (product - quotient * denominator_);
        quotient += twice > denominator_ || (twice == denominator_ && (quotient & 1) != 0);
        return static_cast<std::int16_t>(std::min<std::uint64_t>(quotient, largest_code));
    }

  private:
    std::uint64_t numerator_;
    std::uint64_t denominator_;
};

inline constexpr std::size_t worth_a_table = std::size_t{1} << 16;

template <class Magnitude>
void rescale_by(std::span<const std::int16_t> codes, std::span<std::int16_t> out, Magnitude magnitude) {
    for (std::size_t i = 0; i < codes.size(); ++i) {
        const std::int32_t code = codes[i];
        if (code == exception_code) {
            out[i] = codes[i];
            continue;
        }
        const std::int32_t scaled = magnitude(static_cast<std::uint32_t>(code < 0 ? -code : code));
        out[i] = static_cast<std::int16_t>(code < 0 ? -scaled : scaled);
    }
}

}  // namespace detail

// Re-expresses codes of one step in another: code * old / new, ties to even, clamped to -32767 .. 32767; -32768 stays.
// Steps are bytes s that mean (4 + (s & 3)) * 2^((s >> 2) - 60). `codes` and `out` may be the same.
inline void rescale(std::span<const std::int16_t> codes, std::uint8_t old_step, std::uint8_t new_step,
                    std::span<std::int16_t> out) {
    require(codes.size() == out.size(), "codes and rescaled codes differ in length");
    const detail::StepRatio ratio(old_step, new_step);
    if (codes.size() < detail::worth_a_table) return detail::rescale_by(codes, out, ratio);
    std::vector<std::int16_t> table(largest_code + 1);
    for (std::uint32_t m = 0; m < table.size(); ++m) table[m] = ratio(m);
    detail::rescale_by(codes, out, [&](std::uint32_t magnitude) { return table[magnitude]; });
}

}  // namespace mvcs
