// Sets of elements as 64 bits: which of 64 are of a class, and which of those a run of bits marks.
#pragma once

#include <algorithm>
#include <array>

#include "base/intrinsics.hpp"
#include "base/levels.hpp"
#include "entropy/lanes.hpp"

namespace mvcs {

// What sets are made with where there are no vectors.
struct PlainSets {
    // Which of 64 elements are of a class.
    static std::uint64_t uses(const std::uint8_t* elements, std::uint8_t wanted) {
        std::array<std::uint8_t, 64> same;
        for (std::size_t i = 0; i < 64; ++i) same[i] = elements[i] == wanted;
        std::uint64_t set = 0;
        for (std::size_t i = 0; i < 64; i += 8) {
            std::uint64_t bytes;
            std::memcpy(&bytes, &same[i], sizeof bytes);
            set |= detail::packed_flags(bytes) << i;
        }
        return set;
    }

    // The elements of a set whose bits are set: the lowest bit is that of its first element.
    static std::uint64_t deposit(std::uint64_t bits, std::uint64_t set) {
        const int spare = 64 - std::popcount(set);
        bits = spare == 64 ? 0 : bits << spare >> spare;  // most often none is left
        std::uint64_t chosen = 0;
        for (; bits != 0; bits >>= 1, set &= set - 1) chosen |= set & -set & -(bits & 1);
        return chosen;
    }
};

#ifdef MVCS_X86
namespace avx2 {

struct Sets {
    MVCS_AVX2 static std::uint64_t uses(const std::uint8_t* elements, std::uint8_t wanted) {
        const __m256i all = _mm256_set1_epi8(static_cast<char>(wanted));
        const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(elements));
        const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(elements + 32));
        const auto first = static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(low, all)));
        const auto second = static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(high, all)));
        return first | static_cast<std::uint64_t>(second) << 32;
    }

    MVCS_AVX2 static std::uint64_t deposit(std::uint64_t bits, std::uint64_t set) { return _pdep_u64(bits, set); }
};

}  // namespace avx2

namespace avx512 {

struct Sets {
    MVCS_AVX512 static std::uint64_t uses(const std::uint8_t* elements, std::uint8_t wanted) {
        return _mm512_cmpeq_epi8_mask(_mm512_loadu_si512(elements), _mm512_set1_epi8(static_cast<char>(wanted)));
    }

    MVCS_AVX512 static std::uint64_t deposit(std::uint64_t bits, std::uint64_t set) { return _pdep_u64(bits, set); }
};

}  // namespace avx512
#endif

namespace detail {

// Runs a loop, a lambda marked MVCS_INLINE, with the sets of the active level.
template <class Loop>
void with_sets(const Loop& loop) {
#ifdef MVCS_X86
    if (active_level() == Level::avx512) return run_avx512([&]() MVCS_INLINE { loop(avx512::Sets{}); });
    if (active_level() == Level::avx2) return run_avx2([&]() MVCS_INLINE { loop(avx2::Sets{}); });
#endif
    loop(PlainSets{});
}

// Calls each(set, word) for the elements of a class in every 64, in order.
template <class Sets, class Each>
MVCS_INLINE inline void each_use(Bytes elements, std::size_t wanted, const Each& each) {
    const auto of = static_cast<std::uint8_t>(wanted);
    const std::size_t whole = elements.size() / 64;
    for (std::size_t word = 0; word < whole; ++word) each(Sets::uses(elements.data() + 64 * word, of), word);
    if (elements.size() == 64 * whole) return;
    std::array<std::uint8_t, 64> rest;
    rest.fill(0xFF);  // of no class
    std::copy(elements.begin() + static_cast<std::ptrdiff_t>(64 * whole), elements.end(), rest.begin());
    each(Sets::uses(rest.data(), of), whole);
}

}  // namespace detail

}  // namespace mvcs
