// Rare flags as gaps: how many elements of the same table lie between two that are set.
#pragma once

#include "members.hpp"
#include "rans_flags.hpp"

namespace mvcs {

inline constexpr std::size_t gap_classes = 45;  // of a gap below 2^22

namespace detail {

// A gap plus one in floating point: its bit length and the next bit are the class, the others follow as they are.
struct GapClass {
    std::uint8_t number;
    unsigned rest_bits;
    std::uint32_t rest;
};

inline GapClass gap_class(std::uint32_t gap) {
    const std::uint32_t value = gap + 1;
    const auto power = static_cast<unsigned>(std::bit_width(value)) - 1;
    if (power == 0) return {0, 0, 0};
    const unsigned rest_bits = power - 1;
    const auto number = static_cast<std::uint8_t>(2 * power - 1 + (value >> rest_bits & 1));
    return {number, rest_bits, value & ((1U << rest_bits) - 1)};
}

inline unsigned gap_rest_bits(unsigned number) { return number == 0 ? 0 : (number + 1) / 2 - 1; }

inline std::uint32_t gap_of(unsigned number, std::uint32_t rest) {
    if (number == 0) return 0;
    return ((2U | ((number + 1) & 1U)) << gap_rest_bits(number) | rest) - 1;
}

}  // namespace detail

// Whether gaps may be shorter than flags, from the gaps between set flags whatever their tables.
class GapEstimate {
  public:
    void add(std::size_t set) {
        const auto gap = detail::gap_class(static_cast<std::uint32_t>(set - next_));
        ++classes_[gap.number];
        rest_bits_ += gap.rest_bits;
        next_ = set + 1;
        ++set_;
    }

    // Set flags that are rare are quicker to read as gaps, and about as short.
    bool rare(std::size_t flags) const { return set_ < flags / 128; }

    bool promises(std::size_t flags) const {
        const std::array all{static_cast<std::uint32_t>(flags - set_), static_cast<std::uint32_t>(set_)};
        const Price price = detail::entropy(classes_) + bits_price(static_cast<std::int64_t>(rest_bits_));
        return rare(flags) || price <= worth_it(detail::entropy(all));
    }

    // Whether so much is enough less than so much to be worth the slower reading, unless set flags are rare.
    bool prefers(std::size_t gaps, std::size_t as_flags, std::size_t flags) const {
        return gaps <= (rare(flags) ? as_flags : static_cast<std::size_t>(worth_it(static_cast<Price>(as_flags))));
    }

  private:
    static Price worth_it(Price of) { return of - of / 50; }

    std::array<std::uint32_t, gap_classes> classes_{};
    std::size_t rest_bits_ = 0;
    std::size_t next_ = 0;
    std::size_t set_ = 0;
};

// Finds the set flags piece by piece, in the order of the elements, and notes their gaps by table.
class GapWriter {
  public:
    explicit GapWriter(std::size_t tables) : gaps_(tables), seen_(tables) {}

    void add(Bytes tables, ConstFlagWords flags) {
        for (std::size_t i = 0; i < tables.size(); ++i) {
            const std::size_t table = tables[i];
            ++seen_[table];
            if ((flags[i / 64] >> i % 64 & 1) == 0) continue;
            gaps_[table].push_back(seen_[table] - 1);
            seen_[table] = 0;
        }
    }

    // How many flags are set in each table, then the classes of all gaps, table by table, then their other bits.
    void finish(std::vector<std::uint8_t>& out) const {
        Contexts contexts(gap_classes);
        std::vector<std::uint8_t> classes;
        std::vector<std::uint8_t> context_of;
        for (std::size_t table = 0; table < gaps_.size(); ++table) {
            put_varint(out, gaps_[table].size());
            TableCounts counts(gap_classes);
            for (const auto gap : gaps_[table]) {
                classes.push_back(detail::gap_class(gap).number);
                context_of.push_back(static_cast<std::uint8_t>(table));
                ++counts[classes.back()];
            }
            contexts.add(CountsView(counts));
        }
        const Model model = fit_model(contexts);
        put_model(out, model, gap_classes);
        for (auto& table : context_of) table = model.map[table];
        put_uncertain_symbols(out, context_of, classes, model);
        BitWriter bits(out);
        for (const auto& gaps : gaps_) {
            for (const auto gap : gaps) bits.put(detail::gap_class(gap).rest, detail::gap_class(gap).rest_bits);
        }
        bits.finish();
    }

  private:
    std::vector<std::vector<std::uint32_t>> gaps_;
    std::vector<std::uint32_t> seen_;
};

// Takes gaps off the front of a payload and gives the flags back piece by piece.
class GapReader {
  public:
    // Of at most so many flags in all.
    GapReader(ByteReader& payload, std::size_t tables, std::size_t flags) : next_(max_tables), end_(max_tables) {
        left_.fill(none);
        std::vector<std::size_t> set(tables);
        std::size_t all = 0;
        for (auto& count : set) {
            count = payload.varint();
            require(count <= flags - all, "more flags are set than there are");
            all += count;
        }
        gaps_.resize(all);
        read_gaps(payload, set);
        std::size_t start = 0;
        for (std::size_t table = 0; table < tables; ++table) {
            next_[table] = start;
            end_[table] = start += set[table];
            advance(table);
        }
    }

    std::size_t set() const { return gaps_.size(); }

    void take(Bytes tables, FlagWords out) {
        std::fill(out.begin(), out.end(), 0);
        for (std::size_t i = 0; i < tables.size(); ++i) {
            if (left_[tables[i]]-- != 0) continue;
            out[i / 64] |= std::uint64_t{1} << i % 64;
            advance(tables[i]);
        }
    }

    // Call after the last flag.
    void finish() const {
        for (const auto left : left_) require(left >= none - max_entry_codes, "a gap is longer than its table");
    }

  private:
    static constexpr std::uint32_t none = 0xFFFFFFFF;  // more than all flags together use up

    void read_gaps(ByteReader& payload, const std::vector<std::size_t>& set) {
        const Model model = take_model(payload, gap_classes, set.size());
        std::vector<std::uint8_t> context_of;
        for (std::size_t table = 0; table < set.size(); ++table) {
            context_of.insert(context_of.end(), set[table], model.map[table]);
        }
        std::vector<std::uint8_t> classes(context_of.size());
        take_uncertain_symbols(payload, context_of, model, classes);
        BitReader bits(payload.rest());
        for (std::size_t i = 0; i < classes.size(); ++i) {
            bits.refill();
            gaps_[i] = detail::gap_of(classes[i], bits.take(detail::gap_rest_bits(classes[i])));
        }
        payload.take(bits.used_bytes());
    }

    void advance(std::size_t table) { left_[table] = next_[table] < end_[table] ? gaps_[next_[table]++] : none; }

    std::vector<std::uint32_t> gaps_;
    std::vector<std::size_t> next_;
    std::vector<std::size_t> end_;
    std::array<std::uint32_t, max_tables> left_;
};

}  // namespace mvcs
