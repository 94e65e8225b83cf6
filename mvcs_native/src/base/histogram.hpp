// How often each byte occurs.
#pragma once

#include <algorithm>
#include <array>

#include "base/levels.hpp"

namespace mvcs {

using ByteCounts = std::array<std::uint32_t, 256>;

namespace detail {

inline constexpr std::size_t histogram_block = 4096;

// How many of some bytes are 1, if all are 0 or 1; else more than there are.
inline std::size_t ones_among(Bytes bytes) {
    std::size_t ones = 0;
    at_active_level([bytes, &ones]() MVCS_INLINE {
        std::uint32_t sum = 0;
        std::uint8_t any = 0;
        for (std::size_t i = 0; i < bytes.size(); ++i) any = static_cast<std::uint8_t>(any | bytes[i]);
        for (std::size_t i = 0; i < bytes.size() && any <= 1; ++i) sum += bytes[i];
        ones = any <= 1 ? sum : bytes.size() + 1;
    });
    return ones;
}

}  // namespace detail

// Counts piece by piece.
class Histogram {
  public:
    void add(Bytes bytes) {
        for (std::size_t at = 0; at < bytes.size(); at += detail::histogram_block) {
            const Bytes block = bytes.subspan(at, std::min(detail::histogram_block, bytes.size() - at));
            const std::size_t ones = detail::ones_among(block);
            if (ones > block.size()) {
                add_each(block);
            } else {
                partial_[0][1] += static_cast<std::uint32_t>(ones);
                partial_[0][0] += static_cast<std::uint32_t>(block.size() - ones);
            }
        }
    }

    ByteCounts counts() const {
        ByteCounts sum;
        for (std::size_t s = 0; s < sum.size(); ++s) {
            sum[s] = partial_[0][s] + partial_[1][s] + partial_[2][s] + partial_[3][s];
        }
        return sum;
    }

  private:
    void add_each(Bytes bytes) {
        std::size_t i = 0;
        for (; i + 4 <= bytes.size(); i += 4) {
            ++partial_[0][bytes[i]];
            ++partial_[1][bytes[i + 1]];
            ++partial_[2][bytes[i + 2]];
            ++partial_[3][bytes[i + 3]];
        }
        for (; i < bytes.size(); ++i) ++partial_[0][bytes[i]];
    }

    std::array<ByteCounts, 4> partial_{};  // so that equal neighbours do not wait
};

}  // namespace mvcs
