// BLAKE3 (O'Connor and others 2020, section 2) for machines that no wheel of the package is built for: one block after
// the other, and nothing that depends on how a machine orders bytes. `blake3.py` beside it calls it.
#include <array>
#include <cstddef>
#include <cstdint>
#include <bit>

namespace {

using Words = std::array<std::uint32_t, 8>;
using Block = std::array<std::uint32_t, 16>;

enum Flag : std::uint32_t { start = 1, end = 2, parent = 4, root = 8, context = 32, material = 64 };

constexpr std::size_t block_bytes = 64, chunk_bytes = 1024;
constexpr Words first{0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19};
constexpr std::array<std::uint8_t, 16> order{2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8};
constexpr std::uint8_t groups[8][4] = {{0, 4, 8, 12}, {1, 5, 9, 13}, {2, 6, 10, 14}, {3, 7, 11, 15},
                                       {0, 5, 10, 15}, {1, 6, 11, 12}, {2, 7, 8, 13}, {3, 4, 9, 14}};

void mix(Block& state, const std::uint8_t (&at)[4], std::uint32_t one, std::uint32_t two) {
    auto &a = state[at[0]], &b = state[at[1]], &c = state[at[2]], &d = state[at[3]];
    a += b + one;
    d = std::rotr(d ^ a, 16);
    c += d;
    b = std::rotr(b ^ c, 12);
    a += b + two;
    d = std::rotr(d ^ a, 8);
    c += d;
    b = std::rotr(b ^ c, 7);
}

Words compress(const Words& chained, Block words, std::uint64_t number, std::size_t length, std::uint32_t flags) {
    Block state{};
    for (std::size_t i = 0; i < 8; ++i) state[i] = chained[i];
    for (std::size_t i = 0; i < 4; ++i) state[8 + i] = first[i];
    state[12] = static_cast<std::uint32_t>(number);
    state[13] = static_cast<std::uint32_t>(number >> 32);
    state[14] = static_cast<std::uint32_t>(length);
    state[15] = flags;
    for (int round = 0; round < 7; ++round) {
        for (std::size_t g = 0; g < 8; ++g) mix(state, groups[g], words[2 * g], words[2 * g + 1]);
        Block moved;
        for (std::size_t i = 0; i < 16; ++i) moved[i] = words[order[i]];
        words = moved;
    }
    Words out;
    for (std::size_t i = 0; i < 8; ++i) out[i] = state[i] ^ state[8 + i];
    return out;
}

Block words_of(const std::uint8_t* bytes, std::size_t length) {
    Block words{};
    for (std::size_t i = 0; i < length; ++i) words[i / 4] |= std::uint32_t{bytes[i]} << 8 * (i % 4);
    return words;
}

Words chunk(const Words& key, const std::uint8_t* bytes, std::size_t length, std::uint64_t number, std::uint32_t flags) {
    Words chained = key;
    std::uint32_t marks = start;
    for (; length > block_bytes; bytes += block_bytes, length -= block_bytes, marks = 0) {
        chained = compress(chained, words_of(bytes, block_bytes), number, block_bytes, (flags & ~root) | marks);
    }
    return compress(chained, words_of(bytes, length), number, length, flags | marks | end);
}

Words tree(const Words& key, const std::uint8_t* bytes, std::size_t length, std::uint64_t number, std::uint32_t flags) {
    if (length <= chunk_bytes) return chunk(key, bytes, length, number, flags);
    const std::size_t chunks = std::bit_floor((length - 1) / chunk_bytes);
    const std::size_t left = chunks * chunk_bytes;
    const Words low = tree(key, bytes, left, number, flags & ~root);
    const Words high = tree(key, bytes + left, length - left, number + chunks, flags & ~root);
    Block both;
    for (std::size_t i = 0; i < 8; ++i) both[i] = low[i], both[8 + i] = high[i];
    return compress(key, both, 0, block_bytes, flags | parent);
}

}  // namespace

// Writes 32 bytes. A name, if there is one, is the context of a derived key.
extern "C" void hash(const std::uint8_t* name, std::size_t name_length, const std::uint8_t* bytes, std::size_t length,
                     std::uint8_t* out) {
    const bool derived = name_length > 0;
    const Words key = derived ? tree(first, name, name_length, 0, context | root) : first;
    const Words words = tree(key, bytes, length, 0, derived ? material | root : root);
    for (std::size_t i = 0; i < 32; ++i) out[i] = static_cast<std::uint8_t>(words[i / 4] >> 8 * (i % 4));
}
