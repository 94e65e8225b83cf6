// Gaps between set flags of the same class, 64 elements at a time.
#pragma once

#include "base/intrinsics.hpp"
#include "entropy/lanes.hpp"

#ifdef MVCS_X86
namespace mvcs {

namespace avx512 {

// Which of 64 elements are of a class.
MVCS_AVX512 inline std::uint64_t uses(const std::uint8_t* tables, std::uint8_t table) {
    return _mm512_cmpeq_epi8_mask(_mm512_loadu_si512(tables), _mm512_set1_epi8(static_cast<char>(table)));
}

}  // namespace avx512

namespace avx2 {

MVCS_AVX2 inline std::uint64_t uses(const std::uint8_t* tables, std::uint8_t table) {
    const __m256i wanted = _mm256_set1_epi8(static_cast<char>(table));
    const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(tables));
    const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(tables + 32));
    const auto first = static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(low, wanted)));
    const auto second = static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(high, wanted)));
    return first | static_cast<std::uint64_t>(second) << 32;
}

// The place of the element of a set that `rank` others of it precede.
MVCS_AVX2 inline std::uint64_t select(std::uint64_t set, std::uint32_t rank) {
    return _pdep_u64(std::uint64_t{1} << rank, set);
}

}  // namespace avx2

}  // namespace mvcs
#endif
