// Tails: bit fields of known lengths one after another, least significant bit first.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>

#include "base/intrinsics.hpp"
#include "base/scratch.hpp"
#include "exact/ordered.hpp"

namespace mvcs {

namespace detail {

inline constexpr std::size_t bytes_ahead = 64;  // what one load of the widest level may read past a field's start

MVCS_INLINE inline std::uint64_t load64(const std::uint8_t* at) {
    std::uint64_t word;
    std::memcpy(&word, at, sizeof word);
    return word;
}

}  // namespace detail

// Collects the tails of at most `words` words.
template <class Word>
class TailWriter {
  public:
    explicit TailWriter(std::size_t words)
        : buffer_(words * sizeof(Word) + 16), at_{buffer_.data()} {}

    // Appends the first `count` tails; the bits above their length are zero.
    void put(const TailSlice<Word>& tails, std::size_t count) {
        const auto& [lengths, bits] = tails;
        Position at = at_;  // a copy stays in registers, which bytes written through a pointer cannot change
        std::size_t i = 0;
        if constexpr (sizeof(Word) == 8) {
            for (; i < count; ++i) {
                const unsigned low = std::min<unsigned>(lengths[i], 32);
                at.append(bits[i] & 0xFFFFFFFF, low);
                at.append(bits[i] >> 32, lengths[i] - low);
            }
        } else {
            for (; i + 2 <= count; i += 2) {  // two at a time halve the chain of waits
                at.append(bits[i] | std::uint64_t{bits[i + 1]} << lengths[i], lengths[i] + unsigned{lengths[i + 1]});
            }
            if (i < count) at.append(bits[i], lengths[i]);
        }
        at_ = at;
    }

    // The stream, its last byte filled up with zeros.
    Bytes finish() {
        if (at_.held > 0) *at_.end++ = static_cast<std::uint8_t>(at_.pending);
        at_.held = 0;
        return {buffer_.data(), at_.end};
    }

  private:
    struct Position {
        std::uint8_t* end;
        std::uint64_t pending = 0;
        unsigned held = 0;

        // At most 60 bits, those beyond 56 being zero: only the largest size has a tail of 29, and it is zero.
        void append(std::uint64_t bits, unsigned length) {
            pending |= bits << held;
            held += length;
            std::memcpy(end, &pending, sizeof pending);
            const unsigned whole = held / 8;
            end += whole;
            pending = pending >> (4 * whole) >> (4 * whole);
            held %= 8;
        }
    };

    Scratch<std::uint8_t> buffer_;
    Position at_;
};

namespace detail {

inline std::uint64_t take_bits(const std::uint8_t* bytes, std::size_t& at, unsigned length) {
    const std::uint64_t bits = load64(bytes + at / 8) >> at % 8 & ((std::uint64_t{1} << length) - 1);
    at += length;
    return bits;
}

// The tails from the i-th on. `at` is a bit position and moves behind them; what lies up to `bytes_ahead` bytes past
// them can be read.
template <class Word>
inline void take_tails(const std::uint8_t* bytes, std::size_t& at, TailSlice<Word>& tails, std::size_t i,
                       std::size_t count) {
    std::size_t next = at;
    for (; i < count; ++i) {
        const unsigned low = std::min<unsigned>(tails.lengths[i], 32);
        tails.bits[i] = static_cast<Word>(take_bits(bytes, next, low));
        if constexpr (sizeof(Word) == 8) tails.bits[i] |= take_bits(bytes, next, tails.lengths[i] - low) << 32;
    }
    at = next;
}

#ifdef MVCS_X86
// Eight tails at once: a multiplication sums their lengths up, a byte permutation brings each one's bytes into a
// lane. Together they are at most 240 bits, which with the permuted bytes fit the 64 loaded.
MVCS_AVX512 inline void take_tails_avx512(const std::uint8_t* bytes, std::size_t& at, TailSlice<std::uint32_t>& tails,
                                          std::size_t count) {
    const __m512i each_byte = _mm512_set1_epi64(0x0706050403020100);
    const __m512i spread = _mm512_set_epi64(0x0808080808080808, 0, 0x0808080808080808, 0, 0x0808080808080808, 0,
                                            0x0808080808080808, 0);
    const __m512i one = _mm512_set1_epi64(1);
    std::size_t next = at;
    std::size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        const std::uint64_t sizes = load64(&tails.lengths[i]);
        const std::uint64_t sums = sizes * 0x0101010101010101U;
        const __m512i length = _mm512_cvtepu8_epi64(_mm_cvtsi64_si128(static_cast<long long>(sizes)));
        const __m512i before = _mm512_cvtepu8_epi64(_mm_cvtsi64_si128(static_cast<long long>(sums << 8)));
        const __m512i start = _mm512_add_epi64(before, _mm512_set1_epi64(static_cast<long long>(next % 8)));
        const __m512i places = _mm512_add_epi8(_mm512_shuffle_epi8(_mm512_srli_epi64(start, 3), spread), each_byte);
        const __m512i loaded = _mm512_loadu_si512(bytes + next / 8);
        const __m512i fields = _mm512_srlv_epi64(_mm512_permutexvar_epi8(places, loaded),
                                                 _mm512_and_si512(start, _mm512_set1_epi64(7)));
        const __m512i mask = _mm512_sub_epi64(_mm512_sllv_epi64(one, length), one);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(&tails.bits[i]),
                            _mm512_cvtepi64_epi32(_mm512_and_si512(fields, mask)));
        next += sums >> 56;
    }
    at = next;
    take_tails(bytes, at, tails, i, count);
}
#endif

template <class Word>
inline void take_tails_at_level(const std::uint8_t* bytes, std::size_t& at, TailSlice<Word>& tails, std::size_t count) {
#ifdef MVCS_X86
    if constexpr (sizeof(Word) == 4) {
        if (active_level() == Level::avx512) return take_tails_avx512(bytes, at, tails, count);
    }
#endif
    take_tails(bytes, at, tails, 0, count);
}

}  // namespace detail

// Reads what a TailWriter collected.
template <class Word>
class TailReader {
  public:
    explicit TailReader(Bytes stream) : stream_(stream) {}

    // The next `count` tails, whose lengths are filled in and at most 30, in 64-bit words 62.
    void take(TailSlice<Word>& tails, std::size_t count) {
        const std::size_t used = at_ / 8;
        const std::size_t left = stream_.size() - used;
        if (left >= count * sizeof(Word) + detail::bytes_ahead) {
            return detail::take_tails_at_level(stream_.data(), at_, tails, count);
        }
        std::array<std::uint8_t, slice_words * sizeof(Word) + 2 * detail::bytes_ahead> padded{};
        std::copy(stream_.begin() + static_cast<std::ptrdiff_t>(used), stream_.end(), padded.begin());
        std::size_t at = at_ % 8;
        detail::take_tails_at_level(padded.data(), at, tails, count);
        at_ = used * 8 + at;
        require(at_ <= stream_.size() * 8, "tails end early");
    }

    // Accepts only a stream that was used up to its last byte and whose spare bits are zero.
    void finish() const {
        require((at_ + 7) / 8 == stream_.size(), "tails have bytes to spare");
        require(at_ % 8 == 0 || stream_.back() >> at_ % 8 == 0, "spare bits are not zero");
    }

  private:
    Bytes stream_;
    std::size_t at_ = 0;
};

}  // namespace mvcs
