// Passes over codes and their base, 64 at a time.
#pragma once

#include "base/intrinsics.hpp"
#include "moves/moves_kinds.hpp"

#ifdef MVCS_X86

namespace mvcs::avx512 {

// Tables of 64 buckets by a row of them, for each kind of codes.
template <class Kind>
class TableRow;

template <>
class TableRow<WordCodes> {
  public:
    MVCS_AVX512 explicit TableRow(const std::uint8_t* row)
        : row_(_mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(row)))) {}

    MVCS_AVX512 __m512i operator()(const std::uint8_t* codes) const {
        return _mm512_shuffle_epi8(row_, buckets(codes));
    }

    // The buckets of 64 codes, in bytes.
    MVCS_AVX512 static __m512i buckets(const std::uint8_t* codes) {
        const __m512i last = _mm512_set1_epi16(WordCodes::buckets - 1);
        const __m512i low = _mm512_min_epu16(_mm512_abs_epi16(_mm512_loadu_si512(codes)), last);
        const __m512i high = _mm512_min_epu16(_mm512_abs_epi16(_mm512_loadu_si512(codes + 64)), last);
        return _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi16_epi8(low)), _mm512_cvtepi16_epi8(high), 1);
    }

  private:
    __m512i row_;
};

template <>
class TableRow<ByteCodes> {
  public:
    MVCS_AVX512 explicit TableRow(const std::uint8_t* row) {
        for (int i = 0; i < 4; ++i) row_[i] = _mm512_loadu_si512(row + 64 * i);
    }

    MVCS_AVX512 __m512i operator()(const std::uint8_t* codes) const {
        const __m512i code = _mm512_loadu_si512(codes);
        const __m512i low = _mm512_permutex2var_epi8(row_[0], code, row_[1]);
        const __m512i high = _mm512_permutex2var_epi8(row_[2], code, row_[3]);
        return _mm512_mask_blend_epi8(_mm512_movepi8_mask(code), low, high);
    }

  private:
    __m512i row_[4];
};

// The tables of whole blocks of 64 codes; returns of how many.
template <class Kind>
MVCS_AVX512 std::size_t look_up_tables(const std::uint8_t* codes, std::size_t count, const std::uint8_t* row,
                                       std::uint8_t* out) {
    const TableRow<Kind> tables(row);
    std::size_t i = 0;
    for (; i + 64 <= count; i += 64) _mm512_storeu_si512(out + i, tables(codes + i * sizeof(typename Kind::Code)));
    return i;
}

MVCS_AVX512 inline std::uint64_t differ(const std::uint8_t* one, const std::uint8_t* other, ByteCodes) {
    return _mm512_cmpneq_epi8_mask(_mm512_loadu_si512(one), _mm512_loadu_si512(other));
}

MVCS_AVX512 inline std::uint64_t differ(const std::uint8_t* one, const std::uint8_t* other, WordCodes) {
    const std::uint64_t low = _mm512_cmpneq_epi16_mask(_mm512_loadu_si512(one), _mm512_loadu_si512(other));
    const std::uint64_t high = _mm512_cmpneq_epi16_mask(_mm512_loadu_si512(one + 64), _mm512_loadu_si512(other + 64));
    return low | high << 32;
}

// One flag a code that differs, for whole blocks of 64 codes; returns how many codes.
template <class Kind>
MVCS_AVX512 std::size_t difference_words(const std::uint8_t* codes, const std::uint8_t* base, std::size_t count,
                                         std::uint64_t* words) {
    constexpr std::size_t size = sizeof(typename Kind::Code);
    std::size_t i = 0;
    for (; i + 64 <= count; i += 64) words[i / 64] = differ(codes + i * size, base + i * size, Kind{});
    return i;
}

// Adds how many codes each bucket has, for whole blocks of 64 codes; returns how many codes.
MVCS_AVX512 inline std::size_t count_buckets(const std::uint8_t* codes, std::size_t count, std::uint32_t* counts) {
    std::array<std::uint64_t, WordCodes::buckets> sums{};
    std::size_t i = 0;
    for (; i + 64 <= count; i += 64) {
        const __m512i bucket = TableRow<WordCodes>::buckets(codes + 2 * i);
#pragma GCC unroll 16
        for (int b = 0; b < static_cast<int>(WordCodes::buckets); ++b) {
            const auto found = _mm512_cmpeq_epi8_mask(bucket, _mm512_set1_epi8(static_cast<char>(b)));
            sums[static_cast<std::size_t>(b)] += static_cast<std::uint64_t>(_mm_popcnt_u64(found));
        }
    }
    for (std::size_t b = 0; b < sums.size(); ++b) counts[b] += static_cast<std::uint32_t>(sums[b]);
    return i;
}

// Moves the codes whose flags are set together; `out` has room for 64 bytes more. Returns how many.
template <class Kind>
MVCS_AVX512 std::size_t compress(const std::uint8_t* codes, ConstFlagWords flags, std::uint8_t* out) {
    std::size_t found = 0;
    for (std::size_t i = 0; i < flags.size(); ++i) {
        const std::uint64_t word = flags[i];
        if constexpr (sizeof(typename Kind::Code) == 1) {
            const __m512i code = _mm512_loadu_si512(codes + 64 * i);
            _mm512_storeu_si512(out + found, _mm512_maskz_compress_epi8(word, code));
        } else {
            const auto low = static_cast<std::uint32_t>(word);
            const __m512i first = _mm512_loadu_si512(codes + 128 * i);
            const __m512i second = _mm512_loadu_si512(codes + 128 * i + 64);
            std::uint8_t* const middle = out + 2 * (found + static_cast<std::size_t>(_mm_popcnt_u32(low)));
            _mm512_storeu_si512(out + 2 * found, _mm512_maskz_compress_epi16(low, first));
            _mm512_storeu_si512(middle, _mm512_maskz_compress_epi16(static_cast<__mmask32>(word >> 32), second));
        }
        found += static_cast<std::size_t>(_mm_popcnt_u64(word));
    }
    return found;
}

MVCS_AVX512 inline __m512i moved(__m512i base, std::uint64_t set, const std::uint8_t* moves, ByteCodes) {
    return _mm512_add_epi8(base, _mm512_maskz_expand_epi8(set, _mm512_loadu_si512(moves)));
}

MVCS_AVX512 inline __m512i moved(__m512i base, std::uint32_t set, const std::uint8_t* moves, WordCodes) {
    const __m512i move = _mm512_maskz_expand_epi16(set, _mm512_loadu_si512(moves));
    const __mmask32 negative = _mm512_movepi16_mask(base);
    return _mm512_mask_sub_epi16(_mm512_add_epi16(base, move), negative, base, move);
}

// The base with its moves, for whole blocks of 64 codes; 64 bytes of moves can always be read. Returns how many codes,
// and leaves `moves` at the next one.
template <class Kind>
MVCS_AVX512 std::size_t apply_moves(const std::uint8_t* base, std::size_t count, const std::uint64_t* flags,
                                    const std::uint8_t*& moves, std::uint8_t* out) {
    constexpr std::size_t size = sizeof(typename Kind::Code);
    constexpr std::size_t lanes = 64 / size;
    using Set = std::conditional_t<size == 1, std::uint64_t, std::uint32_t>;
    std::size_t i = 0;
    for (; i + 64 <= count; i += 64) {
        for (std::size_t part = 0; part < 64; part += lanes) {
            const auto set = static_cast<Set>(flags[i / 64] >> part);
            const std::size_t at = (i + part) * size;
            _mm512_storeu_si512(out + at, moved(_mm512_loadu_si512(base + at), set, moves, Kind{}));
            moves += static_cast<std::size_t>(_mm_popcnt_u64(set)) * size;
        }
    }
    return i;
}

}  // namespace mvcs::avx512
#endif
