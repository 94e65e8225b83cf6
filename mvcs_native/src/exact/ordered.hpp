// Words in the order of their values, and a difference between two as a symbol and a tail of low bits.
//
// One body serves every instruction level: the compiler vectorises it for each.
#pragma once

#include <array>
#include <bit>
#include <cstring>
#include <type_traits>

#include "base/levels.hpp"
#include "base/words.hpp"

namespace mvcs {

// Stored words of 1, 2 and 4 bytes stand in the upper bytes of 32 bits, those of 8 bytes in 64.
template <class Stored>
using Wide = std::conditional_t<sizeof(Stored) == 8, std::uint64_t, std::uint32_t>;

inline constexpr std::size_t base_contexts = 256;

// The symbol of a difference is the zigzagged number of its size class. Up to 2^(refinement + 1) - 1 a class is one
// size; above, it is the bit length and the next `refinement` bits, and the bits below are the tail.
template <class Word>
inline constexpr unsigned refinement = sizeof(Word) == 8 ? 1 : 2;

// The tails of a slice: low bits of differences, and how many each has.
template <class Word>
struct TailSlice {
    std::array<std::uint8_t, slice_words> lengths;
    std::array<Word, slice_words> bits;
};

namespace detail {

template <class Word>
inline constexpr unsigned word_bits = 8 * sizeof(Word);

template <class Word>
inline constexpr Word top_bit = Word{1} << (word_bits<Word> - 1);

// Low bits of a wide word that no stored word has.
template <class Stored>
inline constexpr unsigned spare = word_bits<Wide<Stored>> - word_bits<Stored>;

template <class Stored>
MVCS_INLINE inline Wide<Stored> load_word(const std::uint8_t* bytes, std::size_t i) {
    Stored word;
    std::memcpy(&word, bytes + i * sizeof word, sizeof word);
    return static_cast<Wide<Stored>>(word) << spare<Stored>;
}

template <class Stored>
MVCS_INLINE inline void store_word(std::uint8_t* bytes, std::size_t i, Wide<Stored> wide) {
    const auto word = static_cast<Stored>(wide >> spare<Stored>);
    std::memcpy(bytes + i * sizeof word, &word, sizeof word);
}

// All bits set if the top one is.
template <class Word>
MVCS_INLINE inline Word sign_mask(Word word) {
    return static_cast<Word>(static_cast<std::make_signed_t<Word>>(word) >> (word_bits<Word> - 1));
}

// Floats as integers in the order of their values: negative ones have all bits flipped, the others the sign bit.
template <class Word>
MVCS_INLINE inline Word to_ordered(Word word) {
    return word ^ (sign_mask(word) | top_bit<Word>);
}

template <class Word>
MVCS_INLINE inline Word from_ordered(Word word) {
    return word ^ (~sign_mask(word) | top_bit<Word>);
}

MVCS_INLINE inline unsigned bit_length(std::uint64_t size) { return static_cast<unsigned>(std::bit_width(size)); }

// By the exponent of a float, which vector units convert to without counting zeros; clearing the bits that follow a
// leading one keeps the conversion from rounding up.
MVCS_INLINE inline unsigned bit_length(std::uint32_t size) {
    const auto alone = static_cast<std::int32_t>(size & ~(size >> 1));
    const auto exponent = std::bit_cast<std::uint32_t>(static_cast<float>(alone)) >> 23 & 255;
    return size == 0 ? 0 : exponent - 126;
}

// Which table codes the difference to this base word: the exponent of a float, clamped to 2^-223 .. 2^32 in 64 bits;
// the whole of a byte; the bit length and the sign of an integer.
template <class Stored>
MVCS_INLINE inline std::uint8_t context_of(Wide<Stored> base, bool floating) {
    if constexpr (sizeof(Stored) == 1) return static_cast<std::uint8_t>(base >> 24);
    if constexpr (sizeof(Stored) == 8) {
        if (floating) {
            const auto exponent = static_cast<std::int32_t>(base >> 52 & 2047) - 800;
            return static_cast<std::uint8_t>(exponent < 0 ? 0 : exponent > 255 ? 255 : exponent);
        }
    }
    if (floating) return static_cast<std::uint8_t>(base >> 23);
    return static_cast<std::uint8_t>(bit_length(base ^ sign_mask(base)) | (sign_mask(base) & 128));
}

template <class Word>
struct Difference {
    std::uint32_t symbol;
    std::uint32_t tail_length;
    Word tail;
};

// Differences to a negative float count towards zero as those to a positive one do.
template <class Stored, class Word = Wide<Stored>>
MVCS_INLINE inline Difference<Word> difference(Word word, Word base, bool floating) {
    constexpr unsigned fine = refinement<Word>;
    const Word flip = floating ? sign_mask(base) : 0;
    if (floating) {
        word = to_ordered(word);
        base = to_ordered(base);
    }
    Word apart = (((word >> spare<Stored>) - (base >> spare<Stored>)) ^ flip) - flip;
    apart = static_cast<Word>(static_cast<std::make_signed_t<Word>>(apart << spare<Stored>) >> spare<Stored>);
    const Word negative = sign_mask(apart);
    const Word size = (apart ^ negative) - negative;
    const unsigned length = bit_length(size);
    const unsigned low = length > fine + 1 ? length - fine - 1 : 0;
    const auto size_class = (low << fine) + static_cast<std::uint32_t>(size >> low);
    return {2 * size_class + static_cast<std::uint32_t>(negative), low, size & ((Word{1} << low) - 1)};
}

template <class Word>
MVCS_INLINE inline std::uint32_t tail_length_of(std::uint32_t symbol) {
    const std::uint32_t coarse = (symbol + 1) / 2 >> refinement<Word>;
    return coarse > 1 ? coarse - 1 : 0;
}

template <class Stored, class Word = Wide<Stored>>
MVCS_INLINE inline Word apply_difference(Word base, std::uint32_t symbol, Word tail, bool floating) {
    const Word flip = floating ? sign_mask(base) : 0;
    if (floating) base = to_ordered(base);
    const std::uint32_t low = tail_length_of<Word>(symbol);
    const std::uint32_t size_class = (symbol + 1) / 2;
    const Word size = static_cast<Word>(size_class - (low << refinement<Word>)) << low | tail;
    const Word negative = (Word{0} - static_cast<Word>(symbol & 1)) ^ flip;
    const Word apart = (size ^ negative) - negative;
    const Word word = static_cast<Word>(((base >> spare<Stored>) + apart) << spare<Stored>);
    return floating ? from_ordered(word) : word;
}

// The loops of the functions below; no two of their arrays overlap, or nothing would be vectorised.
template <class Stored>
MVCS_INLINE inline void describe_each(const std::uint8_t* __restrict content, const std::uint8_t* __restrict base,
                                      std::size_t count, bool floating, std::uint8_t* __restrict symbols,
                                      std::uint8_t* __restrict lengths, Wide<Stored>* __restrict tails) {
    for (std::size_t i = 0; i < count; ++i) {
        const auto found = difference<Stored>(load_word<Stored>(content, i), load_word<Stored>(base, i), floating);
        symbols[i] = static_cast<std::uint8_t>(found.symbol);
        lengths[i] = static_cast<std::uint8_t>(found.tail_length);
        tails[i] = found.tail;
    }
}

template <class Stored>
MVCS_INLINE inline void context_each(const std::uint8_t* __restrict base, std::size_t count, bool floating,
                                     std::uint8_t* __restrict contexts) {
    for (std::size_t i = 0; i < count; ++i) contexts[i] = context_of<Stored>(load_word<Stored>(base, i), floating);
}

template <class Word>
MVCS_INLINE inline void length_each(const std::uint8_t* __restrict symbols, std::size_t count,
                                    std::uint8_t* __restrict lengths) {
    for (std::size_t i = 0; i < count; ++i) lengths[i] = static_cast<std::uint8_t>(tail_length_of<Word>(symbols[i]));
}

template <class Stored>
MVCS_INLINE inline void apply_each(const std::uint8_t* __restrict base, const std::uint8_t* __restrict symbols,
                                   const Wide<Stored>* __restrict tails, std::size_t count, bool floating,
                                   std::uint8_t* __restrict out) {
    for (std::size_t i = 0; i < count; ++i) {
        const auto near = load_word<Stored>(base, i);
        store_word<Stored>(out, i, apply_difference<Stored>(near, symbols[i], tails[i], floating));
    }
}

}  // namespace detail

// Splits at most slice_words words near a base into what is stored of them.
template <class Stored>
void describe_slice(Bytes content, Bytes base, bool floating, std::uint8_t* symbols, TailSlice<Wide<Stored>>& tails) {
    const std::size_t count = content.size() / sizeof(Stored);
    at_active_level([&]() MVCS_INLINE {
        if (floating) {
            detail::describe_each<Stored>(content.data(), base.data(), count, true, symbols,
                                          tails.lengths.data(), tails.bits.data());
        } else {
            detail::describe_each<Stored>(content.data(), base.data(), count, false, symbols,
                                          tails.lengths.data(), tails.bits.data());
        }
    });
}

template <class Stored>
void contexts_of_slice(Bytes base, bool floating, std::uint8_t* contexts) {
    const std::size_t count = base.size() / sizeof(Stored);
    at_active_level([&]() MVCS_INLINE {
        if (floating) {
            detail::context_each<Stored>(base.data(), count, true, contexts);
        } else {
            detail::context_each<Stored>(base.data(), count, false, contexts);
        }
    });
}

template <class Word>
void lengths_of_slice(Bytes symbols, TailSlice<Word>& tails) {
    at_active_level([&]() MVCS_INLINE {
        detail::length_each<Word>(symbols.data(), symbols.size(), tails.lengths.data());
    });
}

template <class Stored>
void apply_slice(Bytes base, Bytes symbols, const TailSlice<Wide<Stored>>& tails, bool floating, MutableBytes out) {
    const Wide<Stored>* bits = tails.bits.data();
    at_active_level([&]() MVCS_INLINE {
        if (floating) {
            detail::apply_each<Stored>(base.data(), symbols.data(), bits, symbols.size(), true, out.data());
        } else {
            detail::apply_each<Stored>(base.data(), symbols.data(), bits, symbols.size(), false, out.data());
        }
    });
}

}  // namespace mvcs
