// Which symbols of a stream their tables lack, so that they go by escapes.
#pragma once

#include <algorithm>
#include <array>
#include <bit>

#include "base/intrinsics.hpp"
#include "entropy/tables.hpp"

namespace mvcs {

// Says it by a byte for each symbol of each table, or by a bit: bit `symbol % 8` of byte `table * 32 + symbol / 8`.
class LackingSymbols {
  public:
    explicit LackingSymbols(const Tables& tables) {
        for (std::size_t t = 0; t < tables.size(); ++t) {
            for (std::size_t s = 0; s < max_alphabet; ++s) {
                if (tables[t][s] != 0) continue;
                bytes_[t * max_alphabet + s] = 1;
                bits_[t * 32 + s / 8] |= static_cast<std::uint8_t>(1U << s % 8);
            }
        }
    }

    // Calls with the place of each symbol that its table lacks, in their order.
    template <class Each>
    void each(const std::uint8_t* tables, const std::uint8_t* symbols, std::size_t count, Each each) const {
        std::size_t i = 0;
#ifdef MVCS_X86
        if (active_level() == Level::avx512) {
            for (; i + 64 <= count; i += 64) {
                for (std::uint64_t found = find_avx512(tables + i, symbols + i); found != 0; found &= found - 1) {
                    each(i + static_cast<std::size_t>(std::countr_zero(found)));
                }
            }
        }
#endif
        for (; i < count; i += std::min(few, count - i)) {
            if (!any(tables + i, symbols + i, std::min(few, count - i))) continue;
            for (std::size_t at = i; at < std::min(i + few, count); ++at) {
                if (lacks(tables[at], symbols[at]) != 0) each(at);
            }
        }
    }

  private:
    static constexpr std::size_t few = 32;  // so that none of them is lacking, mostly

    std::uint8_t lacks(std::size_t table, std::uint8_t symbol) const { return bytes_[table * max_alphabet + symbol]; }

    bool any(const std::uint8_t* tables, const std::uint8_t* symbols, std::size_t count) const {
        unsigned found = 0;
#pragma GCC unroll 8
        for (std::size_t i = 0; i < count; ++i) found |= lacks(tables[i], symbols[i]);
        return found != 0;
    }

#ifdef MVCS_X86
    // The byte of a symbol has 9 bits: 7 choose from two registers, and the upper two bits of the table from four pairs.
    MVCS_AVX512 std::uint64_t find_avx512(const std::uint8_t* tables, const std::uint8_t* symbols) const {
        const std::uint8_t* bits = bits_.data();
        const __m512i table = _mm512_loadu_si512(tables);
        const __m512i symbol = _mm512_loadu_si512(symbols);
        const __m512i upper = _mm512_and_si512(_mm512_srli_epi16(symbol, 3), _mm512_set1_epi8(31));
        const __m512i place = _mm512_or_si512(_mm512_and_si512(_mm512_slli_epi16(table, 5), _mm512_set1_epi8(-32)), upper);
        const __mmask64 odd = _mm512_test_epi8_mask(table, _mm512_set1_epi8(4));
        const __mmask64 high = _mm512_test_epi8_mask(table, _mm512_set1_epi8(8));
        const __m512i first =
            _mm512_permutex2var_epi8(_mm512_loadu_si512(bits + 0), place, _mm512_loadu_si512(bits + 64));
        const __m512i second =
            _mm512_permutex2var_epi8(_mm512_loadu_si512(bits + 128), place, _mm512_loadu_si512(bits + 192));
        const __m512i third =
            _mm512_permutex2var_epi8(_mm512_loadu_si512(bits + 256), place, _mm512_loadu_si512(bits + 320));
        const __m512i fourth =
            _mm512_permutex2var_epi8(_mm512_loadu_si512(bits + 384), place, _mm512_loadu_si512(bits + 448));
        const __m512i bytes = _mm512_mask_blend_epi8(high, _mm512_mask_blend_epi8(odd, first, second),
                                                     _mm512_mask_blend_epi8(odd, third, fourth));
        const __m512i powers = _mm512_set1_epi64(static_cast<long long>(0x8040201008040201U));
        return _mm512_test_epi8_mask(bytes, _mm512_shuffle_epi8(powers, _mm512_and_si512(symbol, _mm512_set1_epi8(7))));
    }
#endif

    std::array<std::uint8_t, max_tables * max_alphabet> bytes_{};
    std::array<std::uint8_t, max_tables * max_alphabet / 8> bits_{};
};

}  // namespace mvcs
