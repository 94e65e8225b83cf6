// Bytes through a table of 256.
#pragma once

#include "base/intrinsics.hpp"
#include "base/span.hpp"

namespace mvcs {

namespace detail {

inline void look_up_each(const std::uint8_t* __restrict table, const std::uint8_t* in, std::size_t count,
                         std::uint8_t* out) {
#pragma GCC unroll 8
    for (std::size_t i = 0; i < count; ++i) out[i] = table[in[i]];
}

#ifdef MVCS_X86
// Two permutations look up in a half of the table each, by 7 bits; the 8th chooses between them.
MVCS_AVX512 inline void look_up_avx512(const std::uint8_t* table, const std::uint8_t* in, std::size_t count,
                                       std::uint8_t* out) {
    const __m512i first = _mm512_loadu_si512(table);
    const __m512i second = _mm512_loadu_si512(table + 64);
    const __m512i third = _mm512_loadu_si512(table + 128);
    const __m512i fourth = _mm512_loadu_si512(table + 192);
    std::size_t i = 0;
    for (; i + 64 <= count; i += 64) {
        const __m512i places = _mm512_loadu_si512(in + i);
        const __m512i low = _mm512_permutex2var_epi8(first, places, second);
        const __m512i high = _mm512_permutex2var_epi8(third, places, fourth);
        _mm512_storeu_si512(out + i, _mm512_mask_blend_epi8(_mm512_movepi8_mask(places), low, high));
    }
    look_up_each(table, in + i, count - i, out + i);
}
#endif

}  // namespace detail

// Writes table[in[i]]; `out` may be `in`.
inline void look_up(std::span<const std::uint8_t, 256> table, Bytes in, std::uint8_t* out) {
#ifdef MVCS_X86
    if (active_level() == Level::avx512) return detail::look_up_avx512(table.data(), in.data(), in.size(), out);
#endif
    detail::look_up_each(table.data(), in.data(), in.size(), out);
}

}  // namespace mvcs
