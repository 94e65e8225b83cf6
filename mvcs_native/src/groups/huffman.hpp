// Canonical Huffman codes of at most 14 bits: their lengths, their table on the wire, and a table-driven decoder.
#pragma once

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "base/bits.hpp"

namespace mvcs {

inline constexpr unsigned max_code_length = 14;
inline constexpr std::uint32_t kraft_whole = 1U << max_code_length;
inline constexpr std::size_t longest_zero_run = 16;
inline constexpr std::uint8_t only_symbol = 15;  // stands for the length of a symbol that needs no bits

using Counts = std::vector<std::uint32_t>;
using Lengths = std::vector<std::uint8_t>;

// Bits a symbol takes, from its entry in a length table.
inline unsigned code_bits(std::uint8_t length) { return length == only_symbol ? 0 : length; }

// Optimal lengths under the limit by package-merge (Larmore and Hirschberg 1990). At least one count must not be
// zero. Ties are fixed (leaves by count then symbol; a leaf before a package), so every machine finds the same.
inline Lengths code_lengths(const Counts& counts) {
    std::vector<std::size_t> leaves;
    for (std::size_t symbol = 0; symbol < counts.size(); ++symbol) {
        if (counts[symbol] != 0) leaves.push_back(symbol);
    }
    std::stable_sort(leaves.begin(), leaves.end(),
                     [&](std::size_t a, std::size_t b) { return counts[a] < counts[b]; });

    Lengths lengths(counts.size());
    if (leaves.size() == 1) {
        lengths[leaves[0]] = only_symbol;
        return lengths;
    }
    // Level by level: the merged list of leaves and of pairs of the level before, as weights and as marks.
    std::array<std::vector<bool>, max_code_length> is_leaf;
    std::vector<std::uint64_t> level;
    for (auto& marks : is_leaf) {
        std::vector<std::uint64_t> merged;
        std::size_t leaf = 0;
        std::size_t pair = 0;
        const std::size_t pairs = level.size() / 2;
        while (leaf < leaves.size() || pair < pairs) {
            const std::uint64_t package = pair < pairs ? level[2 * pair] + level[2 * pair + 1] : 0;
            const bool take_leaf = leaf < leaves.size() && (pair == pairs || counts[leaves[leaf]] <= package);
            merged.push_back(take_leaf ? counts[leaves[leaf]] : package);
            marks.push_back(take_leaf);
            ++(take_leaf ? leaf : pair);
        }
        level = std::move(merged);
    }

    std::size_t wanted = 2 * leaves.size() - 2;
    for (auto marks = is_leaf.rbegin(); marks != is_leaf.rend() && wanted > 0; ++marks) {
        const auto chosen = static_cast<std::size_t>(
            std::count(marks->begin(), marks->begin() + static_cast<std::ptrdiff_t>(wanted), true));
        for (std::size_t i = 0; i < chosen; ++i) ++lengths[leaves[i]];
        wanted = 2 * (wanted - chosen);
    }
    return lengths;
}

// First code of each length and the symbols in code order.
struct CanonicalOrder {
    std::array<std::uint32_t, max_code_length + 2> first{};   // first code of a length
    std::array<std::uint32_t, max_code_length + 2> offset{};  // where its symbols start in `symbols`
    std::vector<std::uint8_t> symbols;

    // Of a code of two symbols or more.
    explicit CanonicalOrder(const Lengths& lengths) {
        std::array<std::uint32_t, max_code_length + 2> count{};
        for (const auto length : lengths) count[length] += length != 0;
        for (std::size_t length = 1; length <= max_code_length; ++length) {
            first[length + 1] = (first[length] + count[length]) << 1;
            offset[length + 1] = offset[length] + count[length];
        }
        symbols.resize(offset[max_code_length + 1]);
        auto next = offset;
        for (std::size_t symbol = 0; symbol < lengths.size(); ++symbol) {
            if (lengths[symbol] != 0) symbols[next[lengths[symbol]]++] = static_cast<std::uint8_t>(symbol);
        }
    }
};

inline bool has_only_symbol(const Lengths& lengths) {
    return std::find(lengths.begin(), lengths.end(), only_symbol) != lengths.end();
}

// A code ready for writing: its symbols' bits and how many they are.
class HuffmanEncoder {
  public:
    explicit HuffmanEncoder(const Lengths& lengths) : lengths_(lengths), codes_(lengths.size()) {
        if (has_only_symbol(lengths)) {
            std::fill(lengths_.begin(), lengths_.end(), std::uint8_t{0});
            return;
        }
        auto next = CanonicalOrder(lengths).first;
        for (std::size_t symbol = 0; symbol < lengths.size(); ++symbol) {
            if (lengths[symbol] != 0) codes_[symbol] = next[lengths[symbol]]++;
        }
    }

    void put(BitWriter& bits, std::size_t symbol) const { bits.put(codes_[symbol], lengths_[symbol]); }
    std::uint32_t code(std::size_t symbol) const { return codes_[symbol]; }

  private:
    Lengths lengths_;
    std::vector<std::uint32_t> codes_;
};

// The table: a nibble per length, 0 followed by a nibble r for r + 1 symbols without a code, 15 for an only symbol.
// It ends by itself where the code is complete.
inline Payload pack_lengths(const Lengths& lengths) {
    Payload packed;
    BitWriter nibbles(packed);
    std::size_t zeros = 0;
    for (const auto length : lengths) {
        if (length == 0) {
            ++zeros;
            continue;
        }
        for (; zeros > 0; zeros -= std::min(zeros, longest_zero_run)) {
            nibbles.put(static_cast<std::uint32_t>(std::min(zeros, longest_zero_run) - 1), 8);
        }
        nibbles.put(length, 4);
    }
    nibbles.finish();
    return packed;
}

// Takes a table off the front of `body`; refuses codes that are over-full, unfinished or beyond the alphabet.
inline Lengths unpack_lengths(ByteReader& body, std::size_t alphabet) {
    Lengths lengths;
    std::uint32_t kraft = 0;
    std::uint8_t byte = 0;
    bool low_left = false;
    const auto nibble = [&]() -> std::uint8_t {
        low_left = !low_left;
        if (!low_left) return byte & 15;
        byte = body.byte();
        return byte >> 4;
    };
    while (kraft < kraft_whole) {
        const std::uint8_t length = nibble();
        const std::size_t repeats = length == 0 ? nibble() + std::size_t{1} : 1;
        require(repeats <= alphabet - lengths.size(), "a code table names symbols beyond the alphabet");
        lengths.insert(lengths.end(), repeats, length);
        if (length != 0) kraft += kraft_whole >> code_bits(length);
    }
    require(kraft == kraft_whole, "a code table is over-full");
    require(!low_left || (byte & 15) == 0, "spare bits are not zero");
    lengths.resize(alphabet);
    return lengths;
}

class HuffmanDecoder {
  public:
    explicit HuffmanDecoder(const Lengths& lengths)
        : order_(has_only_symbol(lengths) ? Lengths{} : lengths), longest_(longest(lengths)) {
        root_bits_ = std::clamp(longest_, 1U, largest_root);
        root_.resize(std::size_t{1} << root_bits_);
        const HuffmanEncoder encoder(lengths);
        for (std::size_t symbol = 0; symbol < lengths.size(); ++symbol) {
            const unsigned length = code_bits(lengths[symbol]);
            if (lengths[symbol] == 0 || length > root_bits_) continue;
            const std::uint32_t from = encoder.code(symbol) << (root_bits_ - length);
            const Entry entry{static_cast<std::uint8_t>(symbol), static_cast<std::uint8_t>(length)};
            std::fill_n(root_.begin() + from, std::size_t{1} << (root_bits_ - length), entry);
        }
    }

    // Reads one symbol; the reader must hold 14 bits. A complete code has a symbol for any bits.
    std::uint8_t next(BitReader& bits) const {
        const Entry entry = root_[bits.peek(root_bits_)];
        if (entry.length == beyond_root) [[unlikely]] return next_long(bits);
        bits.skip(entry.length);
        return entry.symbol;
    }

  private:
    // Keeps filling the table cheap next to the few symbols of a small group.
    static constexpr unsigned largest_root = 11;
    static constexpr std::uint8_t beyond_root = 255;

    struct Entry {
        std::uint8_t symbol = 0;
        std::uint8_t length = beyond_root;
    };

    static unsigned longest(const Lengths& lengths) {
        unsigned most = 0;
        for (const auto length : lengths) most = std::max(most, code_bits(length));
        return most;
    }

    // Codes of one length are consecutive numbers, so the first length whose range holds the bits is the right one.
    std::uint8_t next_long(BitReader& bits) const {
        unsigned length = root_bits_ + 1;
        while (length < longest_ && rank(bits, length) >= count(length)) ++length;
        const std::uint32_t place = order_.offset[length] + rank(bits, length);
        bits.skip(length);
        return order_.symbols[place];
    }

    std::uint32_t rank(const BitReader& bits, unsigned length) const {
        return bits.peek(length) - order_.first[length];
    }
    std::uint32_t count(unsigned length) const { return order_.offset[length + 1] - order_.offset[length]; }

    CanonicalOrder order_;
    unsigned longest_;
    unsigned root_bits_ = 0;
    std::vector<Entry> root_;
};

}  // namespace mvcs
