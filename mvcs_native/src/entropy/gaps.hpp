// Flags as gaps: how many elements of the same class lie between two that are set.
#pragma once

#include "base/members.hpp"
#include "entropy/gaps_x86.hpp"
#include "entropy/rans.hpp"

namespace mvcs {

inline constexpr std::size_t gap_symbols = 45;  // of gaps below 2^22

namespace detail {

// A gap plus one in floating point: its bit length and the next bit are the symbol, the others follow as they are.
struct SplitGap {
    std::uint8_t symbol;
    unsigned rest_bits;
    std::uint32_t rest;
};

inline SplitGap split_gap(std::uint32_t gap) {
    const std::uint32_t value = gap + 1;
    const auto power = static_cast<unsigned>(std::bit_width(value)) - 1;
    if (power == 0) return {0, 0, 0};
    const unsigned rest_bits = power - 1;
    const auto symbol = static_cast<std::uint8_t>(2 * power - 1 + (value >> rest_bits & 1));
    return {symbol, rest_bits, value & ((1U << rest_bits) - 1)};
}

inline unsigned gap_rest_bits(unsigned symbol) { return symbol == 0 ? 0 : (symbol + 1) / 2 - 1; }

#ifdef MVCS_X86
// Calls each(class, set, word) for every class and every whole word of elements, with the set of those of it; returns
// how many elements that were. None where there are no vectors.
template <class Each>
std::size_t each_use(Bytes elements, std::size_t classes, Each each) {
    if (active_level() == Level::portable) return 0;
    const auto uses = active_level() == Level::avx512 ? avx512::uses : avx2::uses;
    const std::size_t words = elements.size() / 64;
    for (std::size_t word = 0; word < words; ++word) {
        for (std::size_t c = 0; c < classes; ++c) {
            each(c, uses(elements.data() + 64 * word, static_cast<std::uint8_t>(c)), word);
        }
    }
    return 64 * words;
}
#endif

inline std::uint32_t gap_of(unsigned symbol, std::uint32_t rest) {
    if (symbol == 0) return 0;
    return ((2U | ((symbol + 1) & 1U)) << gap_rest_bits(symbol) | rest) - 1;
}

}  // namespace detail

// Contexts whose flags are set alike share a class, in which gaps are counted.
struct GapModel {
    std::size_t classes;
    std::vector<std::uint8_t> map;  // the class of each context
};

// Fits classes to contexts over the alphabet 0, 1, of which one at least has flags.
inline GapModel fit_gaps(const Contexts& contexts, std::size_t group) {
    Clustering clustering = cluster(contexts, group);
    return {clustering.tables.size(), std::move(clustering.map)};
}

// One bit stream: the number of classes less one in 4 bits, the map.
inline void put_gap_model(Payload& out, const GapModel& model) {
    BitWriter bits(out);
    bits.put(static_cast<std::uint32_t>(model.classes - 1), 4);
    put_map(bits, model.map, model.classes);
    bits.finish();
}

inline GapModel take_gap_model(ByteReader& payload, std::size_t contexts) {
    BitReader bits(payload.rest());
    bits.refill();
    GapModel model{bits.take(4) + std::size_t{1}, std::vector<std::uint8_t>(contexts)};
    take_map(bits, model.map, model.classes);
    payload.take(bits.used_bytes());
    return model;
}

// Finds the set flags piece by piece, in the order of the elements, and notes their gaps by class. One at least is set.
class GapWriter {
  public:
    explicit GapWriter(std::size_t classes) : gaps_(classes), seen_(classes) {}

    void add(Bytes class_of, ConstFlagWords flags) {
        std::size_t i = 0;
#ifdef MVCS_X86
        i = detail::each_use(class_of, gaps_.size(), [&](std::size_t c, std::uint64_t uses, std::size_t word) {
            for (std::uint64_t set = flags[word] & uses; set != 0; set &= set - 1) {
                const std::uint64_t before = (set & -set) - 1;
                gaps_[c].push_back(seen_[c] + static_cast<std::uint32_t>(std::popcount(uses & before)));
                uses &= ~(before | (set & -set));
                seen_[c] = 0;
            }
            seen_[c] += static_cast<std::uint32_t>(std::popcount(uses));
        });
#endif
        for (; i < class_of.size(); ++i) {
            const std::size_t c = class_of[i];
            ++seen_[c];
            if ((flags[i / 64] >> i % 64 & 1) == 0) continue;
            gaps_[c].push_back(seen_[c] - 1);
            seen_[c] = 0;
        }
    }

    // How many flags are set in each class, then the symbols of all gaps, class by class, then their other bits.
    void finish(Payload& out) const {
        Contexts contexts(gap_symbols);
        std::vector<std::uint8_t> symbols;
        std::vector<std::uint8_t> context_of;
        for (std::size_t c = 0; c < gaps_.size(); ++c) {
            put_varint(out, gaps_[c].size());
            TableCounts counts(gap_symbols);
            for (const auto gap : gaps_[c]) {
                symbols.push_back(detail::split_gap(gap).symbol);
                context_of.push_back(static_cast<std::uint8_t>(c));
                ++counts[symbols.back()];
            }
            contexts.add(CountsView(counts));
        }
        const Model model = fit_model(contexts);
        put_model(out, model, gap_symbols);
        for (auto& table : context_of) table = model.map[table];
        put_uncertain_symbols(out, context_of, symbols, model);
        BitWriter bits(out);
        for (const auto& gaps : gaps_) {
            for (const auto gap : gaps) bits.put(detail::split_gap(gap).rest, detail::split_gap(gap).rest_bits);
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
    GapReader(ByteReader& payload, std::size_t classes, std::size_t flags)
        : classes_(classes), next_(max_tables), end_(max_tables) {
        left_.fill(none);
        std::vector<std::size_t> set(classes);
        std::size_t all = 0;
        for (auto& count : set) {
            count = payload.varint();
            require(count <= flags - all, "more flags are set than there are");
            all += count;
        }
        gaps_.resize(all);
        read_gaps(payload, set);
        std::size_t start = 0;
        for (std::size_t c = 0; c < classes; ++c) {
            next_[c] = start;
            end_[c] = start += set[c];
            advance(c);
        }
    }

    void take(Bytes class_of, FlagWords out) {
        std::fill(out.begin(), out.end(), 0);
        std::size_t i = 0;
#ifdef MVCS_X86
        i = detail::each_use(class_of, classes_, [&](std::size_t c, std::uint64_t uses, std::size_t word) {
            auto count = static_cast<std::uint32_t>(std::popcount(uses));
            for (; left_[c] < count; count = static_cast<std::uint32_t>(std::popcount(uses))) {
                const std::uint64_t set = avx2::select(uses, left_[c]);
                out[word] |= set;
                uses &= ~(set | (set - 1));
                advance(c);
            }
            left_[c] -= count;
        });
#endif
        for (; i < class_of.size(); ++i) {
            if (left_[class_of[i]]-- != 0) continue;
            out[i / 64] |= std::uint64_t{1} << i % 64;
            advance(class_of[i]);
        }
    }

    // Call after the last flag.
    void finish() const {
        for (const auto left : left_) require(left >= none - max_entry_codes, "a gap is longer than its class");
    }

  private:
    static constexpr std::uint32_t none = 0xFFFFFFFF;  // more than all flags together use up

    void read_gaps(ByteReader& payload, const std::vector<std::size_t>& set) {
        const Model model = take_model(payload, gap_symbols, set.size());
        std::vector<std::uint8_t> tables;
        for (std::size_t c = 0; c < set.size(); ++c) tables.insert(tables.end(), set[c], model.map[c]);
        std::vector<std::uint8_t> symbols(tables.size());
        take_uncertain_symbols(payload, tables, model, symbols);
        BitReader bits(payload.rest());
        for (std::size_t i = 0; i < symbols.size(); ++i) {
            bits.refill();
            gaps_[i] = detail::gap_of(symbols[i], bits.take(detail::gap_rest_bits(symbols[i])));
        }
        payload.take(bits.used_bytes());
    }

    void advance(std::size_t c) { left_[c] = next_[c] < end_[c] ? gaps_[next_[c]++] : none; }

    std::size_t classes_;
    std::vector<std::uint32_t> gaps_;
    std::vector<std::size_t> next_;
    std::vector<std::size_t> end_;
    std::array<std::uint32_t, max_tables> left_;
};

}  // namespace mvcs
