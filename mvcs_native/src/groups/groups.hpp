// Codes to payloads: a run of symbols as one group, or near base codes as one group per bucket of the base.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <vector>

#include "base/histogram.hpp"
#include "groups/huffman.hpp"

namespace mvcs {

inline constexpr std::size_t max_codes = std::size_t{1} << 22;
inline constexpr std::size_t max_levels = 256;
inline constexpr std::size_t run_classes = 23;  // a run of r: the bit length of r + 1, less one; r < 2^22

enum class Mode : std::uint8_t { zeros = 0, constant = 1, bits = 2, huffman = 3, runs = 4 };

namespace detail {

inline void check_size(std::size_t n, std::size_t levels) {
    require(n <= max_codes, "more than 2^22 codes");
    require(levels >= 1 && levels <= max_levels, "levels are not in 1 .. 256");
}

inline void check_codes(Bytes codes, std::size_t levels) {
    std::uint8_t largest = 0;
    for (const auto code : codes) largest = std::max(largest, code);
    require(codes.empty() || largest < levels, "a code is not below levels");
}

inline unsigned symbol_width(std::size_t levels) { return static_cast<unsigned>(std::bit_width(levels - 1)); }

// Where the run of `symbol` that starts at `start`, perhaps empty, ends.
inline std::size_t run_end(Bytes symbols, std::size_t start, std::uint8_t symbol) {
    const std::uint64_t pattern = symbol * 0x0101010101010101ULL;
    std::size_t end = start;
    for (; end + 8 <= symbols.size(); end += 8) {
        std::uint64_t word;
        std::memcpy(&word, symbols.data() + end, sizeof word);
        if (word != pattern) break;
    }
    while (end < symbols.size() && symbols[end] == symbol) ++end;
    return end;
}

// Splits symbols into runs of `common`, perhaps empty, each but perhaps the last followed by another symbol.
template <class Run, class Symbol>
void each_run(Bytes symbols, std::uint8_t common, Run run, Symbol symbol) {
    for (std::size_t start = 0; start < symbols.size();) {
        const std::size_t end = run_end(symbols, start, common);
        const auto length = static_cast<std::uint32_t>(end - start + 1);
        const auto run_class = static_cast<unsigned>(std::bit_width(length) - 1);
        run(run_class, length - (1U << run_class));
        if (end < symbols.size()) symbol(symbols[end]);
        start = end + 1;
    }
}

inline Counts count_symbols(Bytes symbols, std::size_t levels) {
    Histogram histogram;
    histogram.add(symbols);
    const ByteCounts counts = histogram.counts();
    return {counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(levels)};
}

// A Huffman code fitted to counts, and what it costs; `rest` bits follow a symbol for each unit of its number.
struct Fitted {
    Lengths lengths;
    Payload table;
    std::size_t bits = 0;

    explicit Fitted(const Counts& counts, std::size_t rest = 0)
        : lengths(code_lengths(counts)), table(pack_lengths(lengths)) {
        for (std::size_t s = 0; s < counts.size(); ++s) bits += counts[s] * (code_bits(lengths[s]) + rest * s);
    }
};

inline std::size_t coded_size(std::size_t body) { return 1 + varint_size(body) + body; }

inline void put(Payload& out, const Payload& bytes) {
    out.insert(out.end(), bytes.begin(), bytes.end());
}

// Every symbol by one code.
struct HuffmanGroup {
    Fitted fitted;
    std::size_t body;

    explicit HuffmanGroup(const Counts& counts) : fitted(counts), body(fitted.table.size() + (fitted.bits + 7) / 8) {}

    std::size_t size() const { return coded_size(body); }

    void put_into(Payload& out, Bytes symbols) const {
        out.reserve(out.size() + coded_size(body) + 1);
        out.push_back(static_cast<std::uint8_t>(Mode::huffman));
        put_varint(out, body);
        put(out, fitted.table);
        const HuffmanEncoder encoder(fitted.lengths);
        BitWriter bits(out);
        for (const auto symbol : symbols) encoder.put(bits, symbol);
        bits.finish();
    }
};

// Runs of the most common symbol by one code, the symbols between them by another: as the two alternate, neither
// code spends bits on saying which is next.
struct RunsGroup {
    std::uint8_t common;
    Fitted others;
    Fitted runs;
    std::size_t body;

    RunsGroup(Bytes symbols, const Counts& counts)
        : common(most_common(counts)),
          others(without(counts, common)),
          runs(run_counts(symbols, common), 1),
          body(1 + others.table.size() + runs.table.size() + (others.bits + runs.bits + 7) / 8) {}

    std::size_t size() const { return coded_size(body); }

    void put_into(Payload& out, Bytes symbols) const {
        out.reserve(out.size() + coded_size(body) + 1);
        out.push_back(static_cast<std::uint8_t>(Mode::runs));
        put_varint(out, body);
        out.push_back(common);
        put(out, others.table);
        put(out, runs.table);
        const HuffmanEncoder other(others.lengths);
        const HuffmanEncoder run(runs.lengths);
        BitWriter bits(out);
        each_run(symbols, common,
                 [&](unsigned run_class, std::uint32_t rest) {
                     run.put(bits, run_class);
                     bits.put(rest, run_class);
                 },
                 [&](std::uint8_t symbol) { other.put(bits, symbol); });
        bits.finish();
    }

  private:
    static std::uint8_t most_common(const Counts& counts) {
        return static_cast<std::uint8_t>(std::max_element(counts.begin(), counts.end()) - counts.begin());
    }

    static Counts without(Counts counts, std::uint8_t symbol) {
        counts[symbol] = 0;
        return counts;
    }

    static Counts run_counts(Bytes symbols, std::uint8_t symbol) {
        Counts counts(run_classes);
        each_run(symbols, symbol, [&](unsigned run_class, std::uint32_t) { ++counts[run_class]; }, [](std::uint8_t) {});
        return counts;
    }
};

inline void put_bits(Payload& out, Bytes symbols, std::size_t levels) {
    out.push_back(static_cast<std::uint8_t>(Mode::bits));
    BitWriter bits(out);
    for (const auto symbol : symbols) bits.put(symbol, symbol_width(levels));
    bits.finish();
}

// Appends a group in its smallest mode; of equally small modes the one with the lower number.
inline void put_group(Payload& out, Bytes symbols, std::size_t levels) {
    if (symbols.empty()) return;
    const Counts counts = count_symbols(symbols, levels);
    if (counts[symbols[0]] == symbols.size()) {
        out.push_back(static_cast<std::uint8_t>(symbols[0] == 0 ? Mode::zeros : Mode::constant));
        if (symbols[0] != 0) out.push_back(symbols[0]);
        return;
    }
    const std::size_t plain = 1 + (symbols.size() * symbol_width(levels) + 7) / 8;
    const HuffmanGroup huffman(counts);
    const RunsGroup runs(symbols, counts);
    if (plain <= std::min(huffman.size(), runs.size())) {
        put_bits(out, symbols, levels);
    } else if (huffman.size() <= runs.size()) {
        huffman.put_into(out, symbols);
    } else {
        runs.put_into(out, symbols);
    }
}

inline void take_bits(ByteReader& payload, std::size_t levels, MutableBytes out) {
    const unsigned width = symbol_width(levels);
    BitReader bits(payload.take((out.size() * width + 7) / 8));
    for (auto& symbol : out) {
        bits.refill();
        symbol = static_cast<std::uint8_t>(bits.take(width));
        require(symbol < levels, "a symbol is not below levels");
    }
    bits.finish();
}

inline void take_huffman(ByteReader& payload, std::size_t levels, MutableBytes out) {
    ByteReader body(payload.take(payload.varint()));
    const HuffmanDecoder decoder(unpack_lengths(body, levels));
    BitReader bits(body.rest());
    std::size_t i = 0;
    for (; i + 4 <= out.size(); i += 4) {  // four codes of 14 bits fit one refill
        bits.refill();
        out[i] = decoder.next(bits);
        out[i + 1] = decoder.next(bits);
        out[i + 2] = decoder.next(bits);
        out[i + 3] = decoder.next(bits);
    }
    for (bits.refill(); i < out.size(); ++i) out[i] = decoder.next(bits);
    bits.finish();
}

inline void take_runs(ByteReader& payload, std::size_t levels, MutableBytes out) {
    ByteReader body(payload.take(payload.varint()));
    const std::uint8_t common = body.byte();
    require(common < levels, "a symbol is not below levels");
    const Lengths other_lengths = unpack_lengths(body, levels);
    require(other_lengths[common] == 0, "the common symbol has a code");
    const HuffmanDecoder other(other_lengths);
    const HuffmanDecoder run(unpack_lengths(body, run_classes));
    BitReader bits(body.rest());
    std::fill(out.begin(), out.end(), common);
    for (std::size_t i = 0; i < out.size(); ++i) {
        bits.refill();  // a run's code and rest and a symbol's code are at most 50 bits
        const unsigned run_class = run.next(bits);
        const std::size_t length = (std::size_t{1} << run_class) - 1 + bits.take(run_class);
        require(length <= out.size() - i, "a run is longer than its group");
        i += length;
        if (i < out.size()) out[i] = other.next(bits);
    }
    bits.finish();
}

inline void take_group(ByteReader& payload, std::size_t levels, MutableBytes out) {
    if (out.empty()) return;
    switch (static_cast<Mode>(payload.byte())) {
        case Mode::zeros:
            std::fill(out.begin(), out.end(), std::uint8_t{0});
            return;
        case Mode::constant: {
            const std::uint8_t symbol = payload.byte();
            require(symbol < levels, "a symbol is not below levels");
            std::fill(out.begin(), out.end(), symbol);
            return;
        }
        case Mode::bits:
            return take_bits(payload, levels, out);
        case Mode::huffman:
            return take_huffman(payload, levels, out);
        case Mode::runs:
            return take_runs(payload, levels, out);
    }
    throw Invalid("a group has an unknown mode");
}

// Where each base bucket's group starts, and where the last one ends.
inline std::array<std::size_t, max_levels + 1> group_starts(Bytes base) {
    const Counts counts = count_symbols(base, max_levels);
    std::array<std::size_t, max_levels + 1> starts{};
    for (std::size_t bucket = 0; bucket < max_levels; ++bucket) starts[bucket + 1] = starts[bucket] + counts[bucket];
    return starts;
}

inline std::uint8_t cyclic_difference(unsigned from, unsigned minus, unsigned levels) {
    return static_cast<std::uint8_t>(from >= minus ? from - minus : from + levels - minus);
}

}  // namespace detail

inline Payload encode_codes(Bytes codes, std::size_t levels) {
    detail::check_size(codes.size(), levels);
    detail::check_codes(codes, levels);
    Payload out;
    detail::put_group(out, codes, levels);
    return out;
}

// On an error `out` holds bytes of no meaning.
inline void decode_codes(Bytes payload, std::size_t levels, MutableBytes out) {
    detail::check_size(out.size(), levels);
    ByteReader reader(payload);
    detail::take_group(reader, levels, out);
    require(reader.empty(), "the payload has bytes to spare");
}

// Groups (base - code) mod levels by base code, in ascending order of it (Inshrinkerator, section 6). Nothing
// changed is an empty payload.
inline Payload encode_delta(Bytes codes, Bytes base, std::size_t levels) {
    detail::check_size(codes.size(), levels);
    require(codes.size() == base.size(), "codes and base differ in length");
    detail::check_codes(codes, levels);
    detail::check_codes(base, levels);
    Payload out;
    if (std::equal(codes.begin(), codes.end(), base.begin())) return out;

    const auto starts = detail::group_starts(base);
    std::vector<std::uint8_t> symbols(codes.size());
    auto next = starts;
    for (std::size_t i = 0; i < codes.size(); ++i) {
        symbols[next[base[i]]++] = detail::cyclic_difference(base[i], codes[i], static_cast<unsigned>(levels));
    }
    for (std::size_t bucket = 0; bucket < levels; ++bucket) {
        const std::size_t size = starts[bucket + 1] - starts[bucket];
        detail::put_group(out, Bytes(symbols).subspan(starts[bucket], size), levels);
    }
    return out;
}

// On an error `out` holds bytes of no meaning.
inline void decode_delta(Bytes payload, Bytes base, std::size_t levels, MutableBytes out) {
    detail::check_size(out.size(), levels);
    require(out.size() == base.size(), "codes and base differ in length");
    detail::check_codes(base, levels);
    if (payload.empty()) {
        std::copy(base.begin(), base.end(), out.begin());
        return;
    }
    const auto starts = detail::group_starts(base);
    std::vector<std::uint8_t> symbols(base.size());
    ByteReader reader(payload);
    for (std::size_t bucket = 0; bucket < levels; ++bucket) {
        const std::size_t size = starts[bucket + 1] - starts[bucket];
        detail::take_group(reader, levels, MutableBytes(symbols).subspan(starts[bucket], size));
    }
    require(reader.empty(), "the payload has bytes to spare");
    auto next = starts;
    for (std::size_t i = 0; i < base.size(); ++i) {
        out[i] = detail::cyclic_difference(base[i], symbols[next[base[i]]++], static_cast<unsigned>(levels));
    }
}

}  // namespace mvcs
