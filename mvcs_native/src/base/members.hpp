// The members of an entry: runs of codes, one after another, that share one payload.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "base/scratch.hpp"
#include "base/span.hpp"

namespace mvcs {

inline constexpr std::size_t max_members = std::size_t{1} << 12;
inline constexpr std::size_t max_entry_codes = std::size_t{1} << 22;

class Members {
  public:
    // Counts of codes, as both sides know them.
    explicit Members(std::span<const std::uint64_t> counts) {
        require(counts.size() <= max_members, "more than 4096 members");
        for (const auto count : counts) {
            require(count <= max_entry_codes - codes(), "more than 2^22 codes");
            ends_.push_back(codes() + count);
        }
    }

    std::size_t size() const { return ends_.size(); }
    std::size_t codes() const { return ends_.empty() ? 0 : ends_.back(); }
    std::size_t start(std::size_t member) const { return member == 0 ? 0 : ends_[member - 1]; }
    std::size_t end(std::size_t member) const { return ends_[member]; }

    // Calls part(member, from, to) for the members that codes from `start` to `end` belong to.
    template <class Part>
    void each_part(std::size_t start, std::size_t end, Part part) const {
        auto member = static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), start) - ends_.begin());
        for (; start < end; ++member) {
            const std::size_t until = std::min(end, ends_[member]);
            if (until > start) part(member, start, until);
            start = until;
        }
    }

  private:
    std::vector<std::size_t> ends_;
};

}  // namespace mvcs
