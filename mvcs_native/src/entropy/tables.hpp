// Frequency tables of static rANS: from counts to frequencies, and both tables and their map as bits.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <vector>

#include "base/logs.hpp"
#include "entropy/lanes.hpp"

namespace mvcs {

inline constexpr std::size_t max_tables = 16;
inline constexpr std::size_t max_alphabet = 256;

using CountsView = std::span<const std::uint32_t>;
using Frequencies = std::array<std::uint16_t, max_alphabet>;  // sum to 4096; 0: the table lacks the symbol
using Tables = std::vector<Frequencies>;

// A symbol that stands for any other, whose meaning then costs `bits` elsewhere.
struct Escape {
    std::uint8_t symbol;
    unsigned bits;
};

namespace detail {

inline constexpr unsigned first_expected_length = 10;

// Elias gamma (Elias 1975, section 4) of a number from 1 on: as many zeros as bits follow the first.
inline void put_gamma(BitWriter& bits, std::uint32_t value) {
    const auto length = static_cast<unsigned>(std::bit_width(value));
    bits.put(0, length - 1);
    bits.put(value, length);
}

// At most `longest` bits follow the zeros.
inline std::uint32_t take_gamma(BitReader& bits, unsigned longest) {
    bits.refill();
    const auto zeros = static_cast<unsigned>(std::countl_zero(bits.peek(32)));
    require(zeros < longest, "a number is too long");
    bits.skip(zeros);
    return bits.take(zeros + 1);
}

// Frequencies on the wire, until they sum to 4096: each its bit length as the difference to the last one that is not
// zero, then the bits below the first; a zero stands for a run of zeros, whose length follows.
template <class Sink>
void put_frequencies(std::span<const std::uint16_t> frequencies, Sink&& sink) {
    std::int32_t expected = first_expected_length;
    std::uint32_t sum = 0;
    for (std::size_t s = 0; s < frequencies.size() && sum < frequency_whole;) {
        const std::uint32_t frequency = frequencies[s];
        const auto length = static_cast<std::int32_t>(std::bit_width(frequency));
        sink.put_gamma(zigzag(length - expected) + 1);
        const std::size_t start = s++;
        if (frequency == 0) {
            while (s < frequencies.size() && frequencies[s] == 0) ++s;
            sink.put_gamma(static_cast<std::uint32_t>(s - start));
            continue;
        }
        const auto rest = static_cast<unsigned>(length - 1);
        sink.put(frequency & ((1U << rest) - 1), rest);
        expected = length;
        sum += frequency;
    }
}

// Where fields go that are only counted.
struct BitCounter {
    std::size_t bits = 0;

    void put(std::uint32_t, unsigned length) { bits += length; }
    void put_gamma(std::uint32_t value) { bits += 2 * static_cast<std::size_t>(std::bit_width(value)) - 1; }
};

struct GammaWriter {
    BitWriter& bits;

    void put(std::uint32_t value, unsigned length) const { bits.put(value, length); }
    void put_gamma(std::uint32_t value) const { detail::put_gamma(bits, value); }
};

// What frequencies cost in the coded symbols; routed symbols are not among them.
inline Price coded_price(CountsView counts, const Frequencies& frequencies) {
    Price price = 0;
    for (std::size_t s = 0; s < counts.size(); ++s) {
        price += counts[s] * (bits_price(frequency_bits) - log2_price(frequencies[s]));
    }
    return price;
}

// Frequencies next to the counts' shares, each at least 1, then one by one where it costs least or gains most.
inline Frequencies round_shares(CountsView counts) {
    std::uint64_t total = 0;
    for (const auto count : counts) total += count;
    Frequencies frequencies{};
    std::int64_t left = frequency_whole;
    for (std::size_t s = 0; s < counts.size(); ++s) {
        if (counts[s] == 0) continue;
        const std::uint64_t share = (counts[s] * std::uint64_t{2 * frequency_whole} + total) / (2 * total);
        frequencies[s] = static_cast<std::uint16_t>(std::max<std::uint64_t>(share, 1));
        left -= frequencies[s];
    }
    const std::int64_t step = left < 0 ? -1 : 1;
    for (; left != 0; left -= step) {
        Price best = 0;
        std::size_t chosen = counts.size();
        for (std::size_t s = 0; s < counts.size(); ++s) {
            if (counts[s] == 0 || (step < 0 && frequencies[s] == 1)) continue;
            const auto changed = static_cast<std::uint64_t>(frequencies[s] + step);
            const Price gain = counts[s] * (log2_price(changed) - log2_price(frequencies[s]));
            if (chosen == counts.size() || gain > best) {
                best = gain;
                chosen = s;
            }
        }
        frequencies[chosen] = static_cast<std::uint16_t>(frequencies[chosen] + step);
    }
    return frequencies;
}

}  // namespace detail

inline std::size_t table_bits(std::span<const std::uint16_t> frequencies) {
    detail::BitCounter counter;
    detail::put_frequencies(frequencies, counter);
    return counter.bits;
}

// The frequencies that cost least for these counts, of which one at least is not zero. With an escape, symbols that
// are cheaper as escapes get none: those counted at most 1, 2, 4 … times, whichever limit is best in total.
inline Frequencies fit_frequencies(CountsView counts, std::optional<Escape> escape = std::nullopt) {
    Frequencies best = detail::round_shares(counts);
    if (!escape) return best;
    const auto price = [&](CountsView kept, const Frequencies& frequencies) {
        return detail::coded_price(kept, frequencies) +
               bits_price(static_cast<std::int64_t>(kept[escape->symbol] * std::uint64_t{escape->bits} +
                                                    table_bits(std::span(frequencies).first(counts.size()))));
    };
    Price least = price(counts, best);
    std::uint64_t total = 0;
    for (const auto count : counts) total += count;
    for (std::uint64_t limit = 1; limit <= std::max<std::uint64_t>(total / 512, 4); limit *= 2) {
        std::vector<std::uint32_t> kept(counts.begin(), counts.end());
        for (std::size_t s = 0; s < kept.size(); ++s) {
            if (s == escape->symbol || kept[s] > limit) continue;
            kept[escape->symbol] += kept[s];
            kept[s] = 0;
        }
        const Frequencies routed = detail::round_shares(kept);
        const Price routed_price = price(kept, routed);
        if (routed_price >= least) continue;
        least = routed_price;
        best = routed;
    }
    return best;
}

inline void put_table(BitWriter& bits, std::span<const std::uint16_t> frequencies) {
    const detail::GammaWriter sink{bits};
    detail::put_frequencies(frequencies, sink);
}

inline Frequencies take_table(BitReader& bits, std::size_t alphabet) {
    Frequencies frequencies{};
    std::int32_t expected = detail::first_expected_length;
    std::uint32_t sum = 0;
    for (std::size_t s = 0; sum < frequency_whole;) {
        const std::int32_t length = expected + unzigzag(detail::take_gamma(bits, 5) - 1);
        require(length >= 0 && length <= static_cast<std::int32_t>(frequency_bits) + 1, "a frequency is too long");
        const std::size_t run = length == 0 ? detail::take_gamma(bits, 9) : 1;
        require(run <= alphabet - s, "a frequency table names symbols beyond the alphabet");
        if (length != 0) {
            bits.refill();
            const auto rest = static_cast<unsigned>(length - 1);
            frequencies[s] = static_cast<std::uint16_t>(1U << rest | bits.take(rest));
            sum += frequencies[s];
            expected = length;
        }
        s += run;
    }
    require(sum == frequency_whole, "frequencies do not sum to 4096");
    return frequencies;
}

// Which table each of a known number of contexts uses, in runs: the length, then the table.
inline void put_map(BitWriter& bits, Bytes map, std::size_t tables) {
    const auto width = static_cast<unsigned>(std::bit_width(tables - 1));
    for (std::size_t start = 0, end; start < map.size() && width > 0; start = end) {
        for (end = start + 1; end < map.size() && map[end] == map[start];) ++end;
        detail::put_gamma(bits, static_cast<std::uint32_t>(end - start));
        bits.put(map[start], width);
    }
}

inline void take_map(BitReader& bits, MutableBytes map, std::size_t tables) {
    const auto width = static_cast<unsigned>(std::bit_width(tables - 1));
    if (width == 0) std::fill(map.begin(), map.end(), std::uint8_t{0});
    for (std::size_t start = 0; start < map.size() && width > 0;) {
        const std::size_t run = detail::take_gamma(bits, 24);
        require(run <= map.size() - start, "a map of tables is too long");
        bits.refill();
        const std::uint32_t table = bits.take(width);
        require(table < tables, "a map names a missing table");
        std::fill_n(map.begin() + static_cast<std::ptrdiff_t>(start), run, static_cast<std::uint8_t>(table));
        start += run;
    }
}

}  // namespace mvcs
