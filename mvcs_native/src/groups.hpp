// Codes to payloads: a run of symbols as one group, or near base codes as one group per bucket of the base.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <vector>

#include "huffman.hpp"

namespace mvcs {

inline constexpr std::size_t max_codes = std::size_t{1} << 22;
inline constexpr std::size_t max_levels = 256;
inline constexpr unsigned run_classes = 22;  // a run has fewer than 2^22 extra repeats

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

inline std::size_t run_end(Bytes symbols, std::size_t start) {
    const std::uint64_t pattern = symbols[start] * 0x0101010101010101ULL;
    std::size_t end = start + 1;
    for (; end + 8 <= symbols.size(); end += 8) {
        std::uint64_t word;
        std::memcpy(&word, symbols.data() + end, sizeof word);
        if (word != pattern) break;
    }
    while (end < symbols.size() && symbols[end] == symbols[start]) ++end;
    return end;
}

// Calls symbol(s) for the first of every run and run(class, extra) when it repeats.
template <class Symbol, class Run>
void each_run(Bytes symbols, Symbol symbol, Run run) {
    for (std::size_t start = 0; start < symbols.size();) {
        const std::size_t end = run_end(symbols, start);
        symbol(symbols[start]);
        const auto repeats = static_cast<std::uint32_t>(end - start - 1);
        if (repeats > 0) {
            const auto run_class = static_cast<unsigned>(std::bit_width(repeats) - 1);
            run(run_class, repeats - (1U << run_class));
        }
        start = end;
    }
}

inline Counts count_symbols(Bytes symbols, std::size_t levels) {
    std::array<std::array<std::uint32_t, 256>, 4> partial{};  // four, so that equal neighbours do not wait
    for (std::size_t i = 0; i < symbols.size(); ++i) ++partial[i % 4][symbols[i]];
    Counts counts(levels);
    for (std::size_t s = 0; s < levels; ++s) counts[s] = partial[0][s] + partial[1][s] + partial[2][s] + partial[3][s];
    return counts;
}

inline Counts count_runs(Bytes symbols, std::size_t levels) {
    Counts counts(levels + run_classes);
    each_run(symbols, [&](std::uint8_t symbol) { ++counts[symbol]; },
             [&](unsigned run_class, std::uint32_t) { ++counts[levels + run_class]; });
    return counts;
}

// A Huffman code fitted to one group, and what the group would cost under it.
struct Fitted {
    Lengths lengths;
    std::vector<std::uint8_t> table;
    std::size_t body = 0;  // bytes of table and bit stream

    Fitted(const Counts& counts, std::size_t levels) : lengths(code_lengths(counts)), table(pack_lengths(lengths)) {
        std::size_t bits = 0;
        for (std::size_t s = 0; s < counts.size(); ++s) {
            const std::size_t extra = s < levels ? 0 : s - levels;
            bits += counts[s] * (lengths[s] + extra);
        }
        body = table.size() + (bits + 7) / 8;
    }

    std::size_t size() const { return 1 + varint_size(body) + body; }
};

inline void put_fitted(std::vector<std::uint8_t>& out, Mode mode, const Fitted& fitted, Bytes symbols,
                       std::size_t levels) {
    out.push_back(static_cast<std::uint8_t>(mode));
    put_varint(out, fitted.body);
    out.insert(out.end(), fitted.table.begin(), fitted.table.end());
    const auto codes = canonical_codes(fitted.lengths);
    BitWriter bits(out);
    if (mode == Mode::huffman) {
        for (const auto symbol : symbols) bits.put(codes[symbol], fitted.lengths[symbol]);
    } else {
        each_run(symbols, [&](std::uint8_t symbol) { bits.put(codes[symbol], fitted.lengths[symbol]); },
                 [&](unsigned run_class, std::uint32_t extra) {
                     const std::size_t token = levels + run_class;
                     bits.put(codes[token], fitted.lengths[token]);
                     bits.put(extra, run_class);
                 });
    }
    bits.finish();
}

inline void put_bits(std::vector<std::uint8_t>& out, Bytes symbols, std::size_t levels) {
    out.push_back(static_cast<std::uint8_t>(Mode::bits));
    BitWriter bits(out);
    for (const auto symbol : symbols) bits.put(symbol, symbol_width(levels));
    bits.finish();
}

// Appends a group in its smallest mode; of equally small modes the one with the lower number.
inline void put_group(std::vector<std::uint8_t>& out, Bytes symbols, std::size_t levels) {
    if (symbols.empty()) return;
    const Counts counts = count_symbols(symbols, levels);
    if (counts[symbols[0]] == symbols.size()) {
        out.push_back(static_cast<std::uint8_t>(symbols[0] == 0 ? Mode::zeros : Mode::constant));
        if (symbols[0] != 0) out.push_back(symbols[0]);
        return;
    }
    const std::size_t plain = 1 + (symbols.size() * symbol_width(levels) + 7) / 8;
    const Fitted huffman(counts, levels);
    const Fitted runs(count_runs(symbols, levels), levels);
    if (plain <= std::min(huffman.size(), runs.size())) {
        put_bits(out, symbols, levels);
    } else if (huffman.size() <= runs.size()) {
        put_fitted(out, Mode::huffman, huffman, symbols, levels);
    } else {
        put_fitted(out, Mode::runs, runs, symbols, levels);
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
    for (; i + 3 <= out.size(); i += 3) {  // three codes of 15 bits fit one refill
        bits.refill();
        out[i] = static_cast<std::uint8_t>(decoder.next(bits));
        out[i + 1] = static_cast<std::uint8_t>(decoder.next(bits));
        out[i + 2] = static_cast<std::uint8_t>(decoder.next(bits));
    }
    for (; i < out.size(); ++i) {
        bits.refill();
        out[i] = static_cast<std::uint8_t>(decoder.next(bits));
    }
    bits.finish();
}

inline void take_runs(ByteReader& payload, std::size_t levels, MutableBytes out) {
    ByteReader body(payload.take(payload.varint()));
    const HuffmanDecoder decoder(unpack_lengths(body, levels + run_classes));
    BitReader bits(body.rest());
    bool repeatable = false;  // the token before was a symbol
    for (std::size_t i = 0; i < out.size();) {
        bits.refill();
        const std::uint32_t token = decoder.next(bits);
        if (token < levels) {
            out[i++] = static_cast<std::uint8_t>(token);
            repeatable = true;
            continue;
        }
        require(repeatable, "a run follows no symbol");
        const auto run_class = static_cast<unsigned>(token - levels);
        const std::size_t repeats = (std::size_t{1} << run_class) + bits.take(run_class);
        require(repeats <= out.size() - i, "a run is longer than its group");
        std::memset(&out[i], out[i - 1], repeats);
        i += repeats;
        repeatable = false;
    }
    // A run that ends the group was read by the loop above; a further one would leave bits to spare.
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

inline std::vector<std::uint8_t> encode_codes(Bytes codes, std::size_t levels) {
    detail::check_size(codes.size(), levels);
    detail::check_codes(codes, levels);
    std::vector<std::uint8_t> out;
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
inline std::vector<std::uint8_t> encode_delta(Bytes codes, Bytes base, std::size_t levels) {
    detail::check_size(codes.size(), levels);
    require(codes.size() == base.size(), "codes and base differ in length");
    detail::check_codes(codes, levels);
    detail::check_codes(base, levels);
    std::vector<std::uint8_t> out;
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
