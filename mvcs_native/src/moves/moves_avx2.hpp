// Passes over codes and their base, 32 or 64 at a time.
#pragma once

#include "base/intrinsics.hpp"
#include "moves/moves_kinds.hpp"

#ifdef MVCS_X86
namespace mvcs::avx2 {

MVCS_AVX2 inline __m256i load(const std::uint8_t* bytes) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes));
}

// The tables of whole blocks of 32 codes of two bytes; returns of how many.
MVCS_AVX2 inline std::size_t look_up_tables(const std::uint8_t* codes, std::size_t count, const std::uint8_t* row,
                                            std::uint8_t* out) {
    const __m256i tables = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(row)));
    const __m256i last = _mm256_set1_epi16(WordCodes::buckets - 1);
    std::size_t i = 0;
    for (; i + 32 <= count; i += 32) {
        const __m256i low = _mm256_min_epu16(_mm256_abs_epi16(load(codes + 2 * i)), last);
        const __m256i high = _mm256_min_epu16(_mm256_abs_epi16(load(codes + 2 * i + 32)), last);
        const __m256i buckets = _mm256_permute4x64_epi64(_mm256_packus_epi16(low, high), 0xD8);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), _mm256_shuffle_epi8(tables, buckets));
    }
    return i;
}

// Which of 32 codes are equal.
MVCS_AVX2 inline std::uint32_t equal(const std::uint8_t* one, const std::uint8_t* other, ByteCodes) {
    return static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(load(one), load(other))));
}

MVCS_AVX2 inline std::uint32_t equal(const std::uint8_t* one, const std::uint8_t* other, WordCodes) {
    const __m256i low = _mm256_cmpeq_epi16(load(one), load(other));
    const __m256i high = _mm256_cmpeq_epi16(load(one + 32), load(other + 32));
    const __m256i both = _mm256_permute4x64_epi64(_mm256_packs_epi16(low, high), 0xD8);
    return static_cast<std::uint32_t>(_mm256_movemask_epi8(both));
}

// One flag a code that differs, for whole blocks of 64 codes; returns how many codes.
template <class Kind>
MVCS_AVX2 std::size_t difference_words(const std::uint8_t* codes, const std::uint8_t* base, std::size_t count,
                                       std::uint64_t* words) {
    constexpr std::size_t size = sizeof(typename Kind::Code);
    std::size_t i = 0;
    for (; i + 64 <= count; i += 64) {
        const std::uint64_t low = equal(codes + i * size, base + i * size, Kind{});
        const std::uint64_t high = equal(codes + (i + 32) * size, base + (i + 32) * size, Kind{});
        words[i / 64] = ~(low | high << 32);
    }
    return i;
}

}  // namespace mvcs::avx2
#endif
