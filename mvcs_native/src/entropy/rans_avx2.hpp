// Streams of symbols, eight lanes at a time.
#pragma once

#include "base/intrinsics.hpp"
#include "entropy/lanes.hpp"

#ifdef MVCS_X86

#define MVCS_INLINE_AVX2 MVCS_AVX2 inline __attribute__((always_inline))

namespace mvcs::avx2 {

inline constexpr std::size_t width = 8;

// For each set of lanes that want a word, which of the next words each takes.
inline constexpr auto word_of_lane = [] {
    std::array<std::array<std::uint8_t, width>, 256> words{};
    for (std::size_t set = 0; set < words.size(); ++set) {
        std::uint8_t next = 0;
        for (std::size_t lane = 0; lane < width; ++lane) {
            if ((set >> lane & 1) != 0) words[set][lane] = next++;
        }
    }
    return words;
}();

// Refills the lanes of a vector that fell below 2^16, in order; 16 bytes can be read.
MVCS_INLINE_AVX2 __m256i refill(__m256i states, const std::uint8_t*& next) {
    const __m256i due = _mm256_cmpeq_epi32(_mm256_srli_epi32(states, 16), _mm256_setzero_si256());
    const auto set = static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(due)));
    const __m256i words = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(next)));
    next += 2 * _mm_popcnt_u32(set);
    const __m256i order =
        _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(word_of_lane[set].data())));
    const __m256i placed = _mm256_permutevar8x32_epi32(words, order);
    const __m256i refilled = _mm256_or_si256(_mm256_slli_epi32(states, 16), placed);
    return _mm256_blendv_epi8(states, refilled, due);
}

MVCS_INLINE_AVX2 __m256i load_tables(const std::uint8_t* tables) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(tables)));
}

// The low bytes of eight numbers.
MVCS_INLINE_AVX2 std::uint64_t low_bytes(__m256i numbers) {
    const __m256i order = _mm256_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,  //
                                           0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
    const __m256i halves = _mm256_shuffle_epi8(numbers, order);
    const auto low = static_cast<std::uint32_t>(_mm256_extract_epi32(halves, 0));
    const auto high = static_cast<std::uint32_t>(_mm256_extract_epi32(halves, 4));
    return low | static_cast<std::uint64_t>(high) << 32;
}

template <std::size_t Vectors>
MVCS_AVX2 inline std::size_t decode_symbols_in(Lanes& lanes, const std::uint32_t* slots, Bytes tables,
                                               MutableBytes out) {
    constexpr std::size_t round = width * Vectors;
    __m256i states[Vectors];
    for (std::size_t v = 0; v < Vectors; ++v) {
        states[v] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(lanes.states.data() + width * v));
    }
    const __m256i mask = _mm256_set1_epi32(frequency_whole - 1);
    const std::uint8_t* next = lanes.next;
    std::size_t i = 0;
    for (; i + round <= out.size() && static_cast<std::size_t>(lanes.end - next) >= 2 * round; i += round) {
#pragma GCC unroll 8
        for (std::size_t v = 0; v < Vectors; ++v) {
            const __m256i table = _mm256_slli_epi32(load_tables(tables.data() + i + width * v), frequency_bits);
            const __m256i at = _mm256_or_si256(table, _mm256_and_si256(states[v], mask));
            const __m256i slot = _mm256_i32gather_epi32(reinterpret_cast<const int*>(slots), at, 4);
            const std::uint64_t symbols = low_bytes(slot);
            std::memcpy(out.data() + i + width * v, &symbols, sizeof symbols);
            const __m256i less_one = _mm256_and_si256(_mm256_srli_epi32(slot, 8), mask);
            const __m256i frequency = _mm256_add_epi32(less_one, _mm256_set1_epi32(1));
            const __m256i scaled = _mm256_mullo_epi32(frequency, _mm256_srli_epi32(states[v], frequency_bits));
            states[v] = refill(_mm256_add_epi32(scaled, _mm256_srli_epi32(slot, 20)), next);
        }
    }
    for (std::size_t v = 0; v < Vectors; ++v) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(lanes.states.data() + width * v), states[v]);
    }
    lanes.next = next;
    return i;
}

// Whole rounds, while there are words for all lanes; returns how many symbols that made.
inline std::size_t decode_symbols(Lanes& lanes, const std::uint32_t* slots, Bytes tables, MutableBytes out) {
    if (lanes.count == 64) return decode_symbols_in<8>(lanes, slots, tables, out);
    if (lanes.count == 32) return decode_symbols_in<4>(lanes, slots, tables, out);
    if (lanes.count == 16) return decode_symbols_in<2>(lanes, slots, tables, out);
    if (lanes.count == 8) return decode_symbols_in<1>(lanes, slots, tables, out);
    return 0;
}

// Whether a stream has lanes enough for a vector.
inline bool fits(const LaneWriter& writer) { return active_level() == Level::avx2 && writer.count() >= width; }

// For each set of lanes that give a word, these lanes in order, at the end of the vector.
inline constexpr auto lane_of_word = [] {
    std::array<std::array<std::uint8_t, width>, 256> lanes{};
    for (std::size_t set = 0; set < lanes.size(); ++set) {
        std::size_t next = width - static_cast<std::size_t>(std::popcount(set));
        for (std::uint8_t lane = 0; lane < width; ++lane) {
            if ((set >> lane & 1) != 0) lanes[set][next++] = lane;
        }
    }
    return lanes;
}();

// Puts the low words of the lanes whose frequency the state has outgrown before `next`, in order, and takes them off
// the states; 16 bytes before `next` can be written.
MVCS_INLINE_AVX2 __m256i spill(__m256i states, __m256i frequency, int bits, std::uint16_t*& next) {
    const __m256i top = _mm256_srl_epi32(states, _mm_cvtsi32_si128(32 - bits));
    const __m256i kept = _mm256_cmpgt_epi32(frequency, top);
    const auto set = static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(kept))) ^ 0xFFU;
    const __m256i order =
        _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(lane_of_word[set].data())));
    const __m256i low_words = _mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, -1, -1, -1, -1, -1, -1, -1, -1,  //
                                               0, 1, 4, 5, 8, 9, 12, 13, -1, -1, -1, -1, -1, -1, -1, -1);
    const __m256i halves = _mm256_shuffle_epi8(_mm256_permutevar8x32_epi32(states, order), low_words);
    const __m128i words = _mm256_castsi256_si128(_mm256_permute4x64_epi64(halves, 0x08));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(next - width), words);
    next -= _mm_popcnt_u32(set);
    return _mm256_blendv_epi8(_mm256_srli_epi32(states, 16), states, kept);
}

// Adds start + state / frequency * (whole - frequency); as in rans_avx512.hpp, from floats a little too small.
MVCS_INLINE_AVX2 __m256i advance(__m256i states, __m256i frequency, __m256i start, std::uint32_t whole) {
    const __m256 high = _mm256_cvtepi32_ps(_mm256_srli_epi32(states, 16));
    const __m256 low = _mm256_cvtepi32_ps(_mm256_and_si256(states, _mm256_set1_epi32(0xFFFF)));
    const __m256 state = _mm256_add_ps(_mm256_mul_ps(high, _mm256_set1_ps(65536.0F)), low);
    const __m256 ratio = _mm256_div_ps(state, _mm256_cvtepi32_ps(frequency));
    const __m256i quotient = _mm256_cvttps_epi32(_mm256_mul_ps(ratio, _mm256_set1_ps(1.0F - 0x1p-22F)));
    const __m256i remainder = _mm256_sub_epi32(states, _mm256_mullo_epi32(quotient, frequency));
    const __m256i right = _mm256_cmpgt_epi32(frequency, remainder);  // -1, or 0 where the quotient is one less
    const __m256i exact = _mm256_add_epi32(quotient, _mm256_add_epi32(right, _mm256_set1_epi32(1)));
    const __m256i rest = _mm256_sub_epi32(_mm256_set1_epi32(static_cast<int>(whole)), frequency);
    return _mm256_add_epi32(_mm256_add_epi32(states, start), _mm256_mullo_epi32(exact, rest));
}

template <std::size_t Vectors>
MVCS_AVX2 inline bool encode_symbols_in(LaneWriter& writer, const std::uint32_t* packed, Bytes tables,
                                        Bytes symbols) {
    std::uint32_t* const all = writer.states();
    __m256i states[Vectors];
    for (std::size_t v = 0; v < Vectors; ++v) states[v] = _mm256_loadu_si256(reinterpret_cast<__m256i*>(all + width * v));
    std::uint16_t* next = writer.next();
    __m256i missing = _mm256_setzero_si256();
    for (std::size_t i = symbols.size(); i > 0; i -= width * Vectors) {
#pragma GCC unroll 8
        for (std::size_t turn = 0; turn < Vectors; ++turn) {
            const std::size_t v = Vectors - 1 - turn;
            const std::size_t at = i - width * Vectors + width * v;
            const __m256i table = _mm256_slli_epi32(load_tables(tables.data() + at), 8);
            const __m256i index = _mm256_or_si256(table, load_tables(symbols.data() + at));
            const __m256i step = _mm256_i32gather_epi32(reinterpret_cast<const int*>(packed), index, 4);
            const __m256i frequency = _mm256_and_si256(step, _mm256_set1_epi32(0xFFFF));
            missing = _mm256_or_si256(missing, _mm256_cmpeq_epi32(frequency, _mm256_setzero_si256()));
            states[v] = spill(states[v], frequency, frequency_bits, next);
            states[v] = advance(states[v], frequency, _mm256_srli_epi32(step, 16), frequency_whole);
        }
    }
    for (std::size_t v = 0; v < Vectors; ++v) _mm256_storeu_si256(reinterpret_cast<__m256i*>(all + width * v), states[v]);
    writer.next() = next;
    return _mm256_testz_si256(missing, missing) != 0;
}

// Whole rounds of 64 symbols, from the last to the first; false where a table lacks a symbol.
inline bool encode_symbols(LaneWriter& writer, const std::uint32_t* packed, Bytes tables, Bytes symbols) {
    if (writer.count() == 64) return encode_symbols_in<8>(writer, packed, tables, symbols);
    if (writer.count() == 32) return encode_symbols_in<4>(writer, packed, tables, symbols);
    if (writer.count() == 16) return encode_symbols_in<2>(writer, packed, tables, symbols);
    return encode_symbols_in<1>(writer, packed, tables, symbols);
}

}  // namespace mvcs::avx2
#endif
