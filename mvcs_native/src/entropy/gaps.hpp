// Flags as gaps: how many elements of the same class lie between two that are set.
#pragma once

#include "base/members.hpp"
#include "entropy/sets.hpp"
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

// How many bits follow the symbol of a gap, and the gap without them.
struct GapShape {
    std::uint32_t rest_bits;
    std::uint32_t least;
};

inline constexpr auto gap_shapes = [] {
    std::array<GapShape, gap_symbols> shapes{};
    for (std::uint32_t symbol = 1; symbol < gap_symbols; ++symbol) {
        const std::uint32_t rest_bits = (symbol + 1) / 2 - 1;
        shapes[symbol] = {rest_bits, ((2U | ((symbol + 1) & 1U)) << rest_bits) - 1};
    }
    return shapes;
}();

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
        detail::with_sets([&]<class Sets>(Sets) MVCS_INLINE {
            for (std::size_t c = 0; c < gaps_.size(); ++c) {
                std::uint32_t seen = seen_[c];
                detail::each_use<Sets>(class_of, c, [&](std::uint64_t uses, std::size_t word) MVCS_INLINE {
                    for (std::uint64_t set = flags[word] & uses; set != 0; set &= set - 1) {
                        const std::uint64_t before = (set & -set) - 1;
                        gaps_[c].push_back(seen + static_cast<std::uint32_t>(std::popcount(uses & before)));
                        uses &= ~(before | (set & -set));
                        seen = 0;
                    }
                    seen += static_cast<std::uint32_t>(std::popcount(uses));
                });
                seen_[c] = seen;
            }
        });
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

// Takes gaps off the front of a payload and gives the flags back: all places, or piece by piece.
class GapReader {
  public:
    // Of at most so many flags in all.
    GapReader(ByteReader& payload, std::size_t classes, std::size_t flags)
        : payload_(payload), most_(flags), set_(classes), next_(classes), end_(classes) {
        for (auto& count : set_) {
            count = payload.varint();
            require(count <= flags - size_, "more flags are set than there are");
            size_ += count;
        }
        const Model model = take_model(payload, gap_symbols, classes);
        Scratch<std::uint8_t> tables(size_);
        std::size_t at = 0;
        for (std::size_t c = 0; c < classes; at += set_[c++]) std::fill_n(tables.data() + at, set_[c], model.map[c]);
        symbols_ = Scratch<std::uint8_t>(size_);
        take_uncertain_symbols(payload, tables.first(size_), model, symbols_.first(size_));
    }

    // How many flags are set.
    std::size_t size() const { return size_; }

    // Which flags are set, in order, where all elements are of one class: takes all that is left.
    Scratch<std::uint32_t> take_places() {
        Scratch<std::uint32_t> places(size_);
        BitReader bits(payload_.rest());
        const auto set = [next = places.data()](std::size_t at) mutable MVCS_INLINE {
            *next++ = static_cast<std::uint32_t>(at);
        };
        each_place(bits, symbols_.first(size_), 0, most_, set);
        payload_.take(bits.used_bytes());
        return places;
    }

    // Call before the first flag.
    void start() {
        flags_.resize(most_ / 64 + 3 * set_.size());
        BitReader bits(payload_.rest());
        std::size_t at = 0;
        const std::uint8_t* symbol = symbols_.data();
        for (std::size_t c = 0; c < set_.size(); ++c) {
            next_[c] = at;
            at = set_flags(bits, {symbol, set_[c]}, at);
            symbol += set_[c];
            end_[c] = at;
            at = (at / 64 + 2) * 64;
        }
        payload_.take(bits.used_bytes());
    }

    // All pieces but the last are whole words.
    void take(Bytes class_of, FlagWords out) {
        if (next_.size() == 1) return take_all(class_of.size(), out);
        std::fill(out.begin(), out.end(), 0);
        detail::with_sets([&]<class Sets>(Sets) MVCS_INLINE {
            for (std::size_t c = 0; c < next_.size(); ++c) {
                const std::size_t end = end_[c];
                std::size_t next = next_[c];
                if (next == end) continue;
                const std::uint64_t* const flags = flags_.data();
                std::uint64_t* const found = out.data();
                detail::each_use<Sets>(class_of, c, [&](std::uint64_t uses, std::size_t word) MVCS_INLINE {
                    const std::uint64_t low = flags[next / 64] >> next % 64;
                    const std::uint64_t high = flags[next / 64 + 1] << 1 << (63 - next % 64);
                    found[word] |= Sets::deposit(low | high, uses);
                    next = std::min(next + static_cast<std::size_t>(std::popcount(uses)), end);
                });
                next_[c] = next;
            }
        });
    }

    // Call after the last flag.
    void finish() const {
        for (std::size_t c = 0; c < next_.size(); ++c) require(next_[c] >= end_[c], "a gap is longer than its class");
    }

  private:
    // The same where all elements are of one class.
    void take_all(std::size_t count, FlagWords out) {
        for (std::size_t word = 0; word < out.size(); ++word) {
            const std::size_t from = next_[0] / 64 + word;
            out[word] = from < flags_.size() ? flags_[from] : 0;
        }
        next_[0] += count;
    }

    // The flags of a class that begins at a bit; returns the bit behind its last one.
    std::size_t set_flags(BitReader& bits, Bytes symbols, std::size_t begin) {
        const auto set = [flags = flags_.data(), word = std::uint64_t{0}, last = std::size_t{0}](
                             std::size_t at) mutable MVCS_INLINE {
            word = (word & -std::uint64_t{at / 64 == last}) | std::uint64_t{1} << at % 64;
            last = at / 64;
            flags[last] = word;
        };
        return each_place(bits, symbols, begin, (flags_.size() - 2) * 64, set);
    }

    // Calls set(place) for the flags of a class that begins at a place, all below `most`; returns the one behind them.
    template <class Set>
    static std::size_t each_place(BitReader& from, Bytes symbols, std::size_t begin, std::size_t most, Set set_in) {
        at_active_level([&]() MVCS_INLINE {
            BitReader bits = from;  // locals: words written could be those of the members
            Set set = set_in;
            std::size_t at = begin;
            for (const std::uint8_t symbol : symbols) {
                const detail::GapShape shape = detail::gap_shapes[symbol];
                bits.refill();
                at += shape.least + bits.take(shape.rest_bits);
                require(at < most, "a gap is longer than its class");
                set(at++);
            }
            from = bits;
            begin = at;
        });
        return begin;
    }

    ByteReader& payload_;
    std::size_t most_;
    std::vector<std::size_t> set_;  // how many, of each class
    std::size_t size_ = 0;
    Scratch<std::uint8_t> symbols_{0};
    std::vector<std::uint64_t> flags_;  // those of each class from a new word on, with a word without any behind them
    std::vector<std::size_t> next_;
    std::vector<std::size_t> end_;
};

}  // namespace mvcs
