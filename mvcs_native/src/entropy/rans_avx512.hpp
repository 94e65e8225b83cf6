// Streams of symbols, sixteen lanes at a time.
#pragma once

#include "base/intrinsics.hpp"
#include "entropy/lanes.hpp"

#ifdef MVCS_X86

#define MVCS_INLINE_AVX512 MVCS_AVX512 inline __attribute__((always_inline))

namespace mvcs::avx512 {

inline constexpr std::size_t width = 16;

// Refills the lanes of a vector that fell below 2^16, in order; 32 bytes can be read.
MVCS_INLINE_AVX512 __m512i refill(__m512i states, const std::uint8_t*& next) {
    const __mmask16 due = _mm512_cmplt_epu32_mask(states, _mm512_set1_epi32(first_state));
    const __m512i words = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(next)));
    next += 2 * _mm_popcnt_u32(due);
    const __m512i placed = _mm512_maskz_expand_epi32(due, words);
    return _mm512_mask_or_epi32(states, due, _mm512_slli_epi32(states, 16), placed);
}

MVCS_INLINE_AVX512 __m512i load_tables(const std::uint8_t* tables) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(tables)));
}

template <std::size_t Vectors>
MVCS_AVX512 inline std::size_t decode_symbols_in(Lanes& lanes, const std::uint32_t* slots, Bytes tables,
                                                 MutableBytes out) {
    constexpr std::size_t round = width * Vectors;
    __m512i states[Vectors];
    for (std::size_t v = 0; v < Vectors; ++v) states[v] = _mm512_loadu_si512(lanes.states.data() + width * v);
    const std::uint8_t* next = lanes.next;
    std::size_t i = 0;
    for (; i + round <= out.size() && static_cast<std::size_t>(lanes.end - next) >= 2 * round; i += round) {
        __m512i slot[Vectors];
#pragma GCC unroll 4
        for (std::size_t v = 0; v < Vectors; ++v) {
            const __m512i table = _mm512_slli_epi32(load_tables(tables.data() + i + width * v), frequency_bits);
            const __m512i low = _mm512_and_si512(states[v], _mm512_set1_epi32(frequency_whole - 1));
            slot[v] = _mm512_i32gather_epi32(_mm512_or_si512(table, low), slots, 4);
        }
#pragma GCC unroll 4
        for (std::size_t v = 0; v < Vectors; ++v) {
            _mm_storeu_si128(reinterpret_cast<__m128i*>(out.data() + i + width * v), _mm512_cvtepi32_epi8(slot[v]));
            const __m512i less_one =
                _mm512_and_si512(_mm512_srli_epi32(slot[v], 8), _mm512_set1_epi32(frequency_whole - 1));
            const __m512i frequency = _mm512_add_epi32(less_one, _mm512_set1_epi32(1));
            const __m512i scaled = _mm512_mullo_epi32(frequency, _mm512_srli_epi32(states[v], frequency_bits));
            states[v] = refill(_mm512_add_epi32(scaled, _mm512_srli_epi32(slot[v], 20)), next);
        }
    }
    for (std::size_t v = 0; v < Vectors; ++v) _mm512_storeu_si512(lanes.states.data() + width * v, states[v]);
    lanes.next = next;
    return i;
}

// Whole rounds, while there are words for all lanes; returns how many symbols that made.
inline std::size_t decode_symbols(Lanes& lanes, const std::uint32_t* slots, Bytes tables, MutableBytes out) {
    if (lanes.count == 64) return decode_symbols_in<4>(lanes, slots, tables, out);
    if (lanes.count == 32) return decode_symbols_in<2>(lanes, slots, tables, out);
    if (lanes.count == 16) return decode_symbols_in<1>(lanes, slots, tables, out);
    return 0;
}

// Puts the low words of the lanes in `full` before `next`, in order, and takes them off the states.
MVCS_INLINE_AVX512 __m512i spill(__m512i states, __mmask16 full, std::uint16_t*& next) {
    const auto count = static_cast<unsigned>(_mm_popcnt_u32(full));
    next -= count;
    const __m256i words = _mm512_cvtepi32_epi16(_mm512_maskz_compress_epi32(full, states));
    _mm256_mask_storeu_epi16(next, static_cast<__mmask16>((1U << count) - 1), words);
    return _mm512_mask_srli_epi32(states, full, states, 16);
}

// Adds start + state / frequency * (whole - frequency). The quotient is below 2^20 and comes from floats a little too
// small, so it is the right one or one less; the remainder tells.
MVCS_INLINE_AVX512 __m512i advance(__m512i states, __m512i frequency, __m512i start, std::uint32_t whole) {
    const __m512 below = _mm512_set1_ps(1.0F - 0x1p-22F);
    const __m512 ratio = _mm512_div_ps(_mm512_cvtepu32_ps(states), _mm512_cvtepu32_ps(frequency));
    __m512i quotient = _mm512_cvttps_epu32(_mm512_mul_ps(ratio, below));
    const __m512i remainder = _mm512_sub_epi32(states, _mm512_mullo_epi32(quotient, frequency));
    const __mmask16 less = _mm512_cmpge_epu32_mask(remainder, frequency);
    quotient = _mm512_mask_add_epi32(quotient, less, quotient, _mm512_set1_epi32(1));
    const __m512i rest = _mm512_sub_epi32(_mm512_set1_epi32(static_cast<int>(whole)), frequency);
    return _mm512_add_epi32(_mm512_add_epi32(states, start), _mm512_mullo_epi32(quotient, rest));
}

template <std::size_t Vectors>
MVCS_AVX512 inline bool encode_symbols_in(LaneWriter& writer, const std::uint32_t* packed, Bytes tables,
                                          Bytes symbols) {
    __m512i states[Vectors];
    for (std::size_t v = 0; v < Vectors; ++v) states[v] = _mm512_loadu_si512(writer.states() + width * v);
    std::uint16_t* next = writer.next();
    __mmask16 missing = 0;
    for (std::size_t i = symbols.size(); i > 0; i -= width * Vectors) {
        __m512i step[Vectors];
#pragma GCC unroll 4
        for (std::size_t v = 0; v < Vectors; ++v) {
            const std::size_t at = i - width * Vectors + width * v;
            const __m512i symbol = load_tables(symbols.data() + at);
            const __m512i table = _mm512_slli_epi32(load_tables(tables.data() + at), 8);
            step[v] = _mm512_i32gather_epi32(_mm512_or_si512(table, symbol), packed, 4);
        }
#pragma GCC unroll 4
        for (std::size_t turn = 0; turn < Vectors; ++turn) {
            const std::size_t v = Vectors - 1 - turn;
            const __m512i frequency = _mm512_and_si512(step[v], _mm512_set1_epi32(0xFFFF));
            missing |= _mm512_testn_epi32_mask(frequency, frequency);
            const __mmask16 full =
                _mm512_cmpge_epu32_mask(_mm512_srli_epi32(states[v], 32 - frequency_bits), frequency);
            states[v] = spill(states[v], full, next);
            states[v] = advance(states[v], frequency, _mm512_srli_epi32(step[v], 16), frequency_whole);
        }
    }
    for (std::size_t v = 0; v < Vectors; ++v) _mm512_storeu_si512(writer.states() + width * v, states[v]);
    writer.next() = next;
    return missing == 0;
}

// Whether a stream has lanes enough for a vector.
inline bool fits(const LaneWriter& writer) { return active_level() == Level::avx512 && writer.count() >= width; }

// Whole rounds, from the last to the first; false where a table lacks a symbol.
inline bool encode_symbols(LaneWriter& writer, const std::uint32_t* packed, Bytes tables, Bytes symbols) {
    if (writer.count() == 64) return encode_symbols_in<4>(writer, packed, tables, symbols);
    if (writer.count() == 32) return encode_symbols_in<2>(writer, packed, tables, symbols);
    return encode_symbols_in<1>(writer, packed, tables, symbols);
}

}  // namespace mvcs::avx512
#endif
