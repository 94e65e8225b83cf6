// Rare flags as gaps: how many elements of the same table lie between two that are set.
#pragma once

#include "base/members.hpp"
#include "entropy/gaps_x86.hpp"
#include "entropy/rans_flags.hpp"

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

#ifdef MVCS_X86
// Calls each(table, set, word) for every table and every whole word of elements, with the set of those that use it;
// returns how many elements that were. None where there are no vectors.
template <class Each>
std::size_t each_use(Bytes elements, std::size_t tables, Each each) {
    if (active_level() == Level::portable) return 0;
    const auto uses = active_level() == Level::avx512 ? avx512::uses : avx2::uses;
    const std::size_t words = elements.size() / 64;
    for (std::size_t word = 0; word < words; ++word) {
        for (std::size_t table = 0; table < tables; ++table) {
            each(table, uses(elements.data() + 64 * word, static_cast<std::uint8_t>(table)), word);
        }
    }
    return 64 * words;
}
#endif

inline std::uint32_t gap_of(unsigned number, std::uint32_t rest) {
    if (number == 0) return 0;
    return ((2U | ((number + 1) & 1U)) << gap_rest_bits(number) | rest) - 1;
}

}  // namespace detail

// Whether gaps may be shorter than flags: where flags that are set come together, or are rare.
class GapEstimate {
  public:
    // By how many flags are set in each word: where they come together, words know more than their average.
    GapEstimate(ConstFlagWords words, std::size_t flags) : flags_(flags) {
        std::array<std::int64_t, 65> words_with{};
        for (const auto word : words) ++words_with[static_cast<std::size_t>(std::popcount(word))];
        for (std::uint32_t ones = 0; ones < words_with.size(); ++ones) {
            set_ += static_cast<std::size_t>(words_with[ones]) * ones;
            by_word_ += words_with[ones] * detail::entropy(std::array{64 - ones, ones});
        }
    }

    bool promises() const {
        const std::array all{static_cast<std::uint32_t>(flags_ - set_), static_cast<std::uint32_t>(set_)};
        const Price chance = bits_price(static_cast<std::int64_t>(flags_ / 64)) * 3 / 4;  // of words by chance alone
        const Price flags = detail::entropy(all);
        return rare() || by_word_ + chance <= flags - flags / 10;
    }

    // Whether so many bytes are so much less than as flags that slower reading is worth it.
    bool prefers(std::size_t gaps, std::size_t as_flags) const {
        return gaps <= (rare() ? as_flags : as_flags - as_flags / 50);
    }

  private:
    // Quicker to read as gaps, and about as short.
    bool rare() const { return set_ < flags_ / 128; }

    std::size_t flags_;
    std::size_t set_ = 0;
    Price by_word_ = 0;
};

// Finds the set flags piece by piece, in the order of the elements, and notes their gaps by table.
class GapWriter {
  public:
    explicit GapWriter(std::size_t tables) : gaps_(tables), seen_(tables) {}

    void add(Bytes tables, ConstFlagWords flags) {
        std::size_t i = 0;
#ifdef MVCS_X86
        i = detail::each_use(tables, gaps_.size(), [&](std::size_t table, std::uint64_t uses, std::size_t word) {
            for (std::uint64_t set = flags[word] & uses; set != 0; set &= set - 1) {
                const std::uint64_t before = (set & -set) - 1;
                gaps_[table].push_back(seen_[table] + static_cast<std::uint32_t>(std::popcount(uses & before)));
                uses &= ~(before | (set & -set));
                seen_[table] = 0;
            }
            seen_[table] += static_cast<std::uint32_t>(std::popcount(uses));
        });
#endif
        for (; i < tables.size(); ++i) {
            const std::size_t table = tables[i];
            ++seen_[table];
            if ((flags[i / 64] >> i % 64 & 1) == 0) continue;
            gaps_[table].push_back(seen_[table] - 1);
            seen_[table] = 0;
        }
    }

    // How many flags are set in each table, then the classes of all gaps, table by table, then their other bits.
    void finish(Payload& out) const {
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
    GapReader(ByteReader& payload, std::size_t tables, std::size_t flags)
        : tables_(tables), next_(max_tables), end_(max_tables) {
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
        std::size_t i = 0;
#ifdef MVCS_X86
        i = detail::each_use(tables, tables_, [&](std::size_t table, std::uint64_t uses, std::size_t word) {
            auto count = static_cast<std::uint32_t>(std::popcount(uses));
            for (; left_[table] < count; count = static_cast<std::uint32_t>(std::popcount(uses))) {
                const std::uint64_t set = avx2::select(uses, left_[table]);
                out[word] |= set;
                uses &= ~(set | (set - 1));
                advance(table);
            }
            left_[table] -= count;
        });
#endif
        for (; i < tables.size(); ++i) {
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

    std::size_t tables_;
    std::vector<std::uint32_t> gaps_;
    std::vector<std::size_t> next_;
    std::vector<std::size_t> end_;
    std::array<std::uint32_t, max_tables> left_;
};

}  // namespace mvcs
