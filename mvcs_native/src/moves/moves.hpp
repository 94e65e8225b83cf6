// Passes over codes and their base: which differ, in which buckets, by which tables.
#pragma once

#include "base/histogram.hpp"
#include "base/levels.hpp"
#include "base/members.hpp"
#include "entropy/rans.hpp"
#include "moves/moves_avx2.hpp"
#include "moves/moves_avx512.hpp"

namespace mvcs {

namespace detail {

template <class Kind>
void difference_words(CodeView<Kind> codes, CodeView<Kind> base, FlagWords words) {
    std::size_t start = 0;
#ifdef MVCS_X86
    if (active_level() == Level::avx2) {
        start = avx2::difference_words<Kind>(codes.bytes(), base.bytes(), codes.size(), words.data());
    }
    if (active_level() == Level::avx512) {
        start = avx512::difference_words<Kind>(codes.bytes(), base.bytes(), codes.size(), words.data());
    }
#endif
    for (; start < codes.size(); start += 64) {
        const std::size_t count = std::min<std::size_t>(64, codes.size() - start);
        std::array<std::uint8_t, 64> differs{};
        for (std::size_t bit = 0; bit < count; ++bit) differs[bit] = codes[start + bit] != base[start + bit];
        words[start / 64] = 0;
        for (std::size_t bit = 0; bit < count; bit += 8) {
            std::uint64_t bytes;
            std::memcpy(&bytes, &differs[bit], sizeof bytes);
            words[start / 64] |= packed_flags(bytes) << bit;
        }
    }
}

inline constexpr std::size_t bucket_block = 4096;

// The buckets of codes from `start` on, in `out` unless they are there already.
template <class Kind>
const std::uint8_t* buckets_of(CodeView<Kind> base, std::size_t start, std::size_t count, std::uint8_t* out) {
    if constexpr (sizeof(typename Kind::Code) == 1) return base.bytes(start);
    at_active_level([part = base.part(start, count), out]() MVCS_INLINE {
        const CodeView<Kind> codes = part;  // locals: bytes written could be those of the lambda itself
        std::uint8_t* const to = out;
        for (std::size_t i = 0; i < codes.size(); ++i) to[i] = static_cast<std::uint8_t>(Kind::bucket(codes[i]));
    });
    return out;
}

// How many base codes from `start` to `end` each bucket has, added to `counts`.
template <class Kind>
void count_buckets(CodeView<Kind> base, std::size_t start, std::size_t end, std::uint32_t* counts) {
#ifdef MVCS_X86
    if constexpr (sizeof(typename Kind::Code) == 2) {
        if (active_level() == Level::avx512) start += avx512::count_buckets(base.bytes(start), end - start, counts);
    }
#endif
    if (start == end) return;
    Histogram histogram;
    std::array<std::uint8_t, bucket_block> buckets;
    for (; start < end; start += std::min(bucket_block, end - start)) {
        const std::size_t count = std::min(bucket_block, end - start);
        histogram.add({buckets_of(base, start, count, buckets.data()), count});
    }
    const ByteCounts found = histogram.counts();
    for (std::size_t b = 0; b < Kind::buckets; ++b) counts[b] += found[b];
}

// The table of each base code from `start` to `end`.
template <class Kind>
void look_up_tables(CodeView<Kind> base, std::size_t start, std::size_t end, const std::uint8_t* table_of_bucket,
                    std::uint8_t* out) {
#ifdef MVCS_X86
    if (active_level() == Level::avx512) {
        const std::size_t done = avx512::look_up_tables<Kind>(base.bytes(start), end - start, table_of_bucket, out);
        start += done;
        out += done;
    }
    if constexpr (sizeof(typename Kind::Code) == 2) {
        if (active_level() == Level::avx2) {
            const std::size_t done = avx2::look_up_tables(base.bytes(start), end - start, table_of_bucket, out);
            start += done;
            out += done;
        }
    }
#endif
    std::array<std::uint8_t, bucket_block> buckets;
    for (; start < end; start += std::min(bucket_block, end - start)) {
        const std::size_t count = std::min(bucket_block, end - start);
        const std::uint8_t* const each = buckets_of(base, start, count, buckets.data());
#pragma GCC unroll 8
        for (std::size_t i = 0; i < count; ++i) out[i] = table_of_bucket[each[i]];
        out += count;
    }
}

// Calls each(word, i) for the words of flags from `start` to `end`, without flags outside; i is the place of bit 0.
template <class Each>
void each_word(ConstFlagWords words, std::size_t start, std::size_t end, Each each) {
    for (std::size_t at = start / 64; at * 64 < end; ++at) {
        std::uint64_t word = words[at];
        if (at * 64 < start) word &= ~std::uint64_t{0} << start % 64;
        if (end - at * 64 < 64) word &= (std::uint64_t{1} << (end - at * 64)) - 1;
        each(word, at * 64);
    }
}

// Calls each(i) for the flags that are set from `start` to `end`, in order.
template <class Each>
void each_set(ConstFlagWords words, std::size_t start, std::size_t end, Each each) {
    each_word(words, start, end, [&](std::uint64_t word, std::size_t at) {
        for (; word != 0; word &= word - 1) each(at + static_cast<std::size_t>(std::countr_zero(word)));
    });
}

}  // namespace detail

inline constexpr std::size_t places_room = 3;

// Puts the places of set flags in order; the first flag's is `start`. `out` has `places_room` more. Returns how many.
inline std::size_t put_places(ConstFlagWords flags, std::size_t start, std::uint32_t* out) {
    std::size_t count = 0;
    at_active_level([&, to = out]() MVCS_INLINE {
        std::uint32_t* next = to;
        auto place = static_cast<std::uint32_t>(start);
        for (std::uint64_t word : flags) {
            std::uint32_t* const end = next + std::popcount(word);
            do {  // a few at a time without a branch for each: most often that is all
                for (std::size_t i = 0; i < places_room; ++i, word &= word - 1) {
                    *next++ = place + static_cast<std::uint32_t>(std::countr_zero(word | std::uint64_t{1} << 63));
                }
            } while (word != 0);
            next = end;
            place += 64;
        }
        count = static_cast<std::size_t>(next - to);
    });
    return count;
}

// Moves the codes whose flags are set together; `out` has room for 64 bytes more. Returns how many.
template <class Kind>
std::size_t compress(CodeView<Kind> codes, ConstFlagWords flags, typename Kind::Code* out) {
    std::size_t words = 0;
    std::size_t found = 0;
#ifdef MVCS_X86
    if (active_level() == Level::avx512) {
        words = codes.size() / 64;
        found = avx512::compress<Kind>(codes.bytes(), flags.first(words), reinterpret_cast<std::uint8_t*>(out));
    }
#endif
    detail::each_set(flags, words * 64, codes.size(), [&](std::size_t i) { out[found++] = codes[i]; });
    return found;
}

// Whether codes are moved one by one rather than in vectors: where these are missing, or few flags are set.
inline bool singly(std::size_t set, std::size_t flags, bool in_place) {
    return active_level() != Level::avx512 || set < flags / (in_place ? 16 : 128);
}

// The base with its moves, one for each flag that is set; 64 bytes behind the moves can be read. `out` may be the base.
template <class Kind>
void apply_moves(CodeView<Kind> base, ConstFlagWords flags, std::span<const typename Kind::Code> all,
                 std::uint8_t* out) {
    using Code = typename Kind::Code;
    const Code* moves = all.data();
    std::size_t done = 0;
#ifdef MVCS_X86
    if (active_level() == Level::avx512) {
        const auto* next = reinterpret_cast<const std::uint8_t*>(moves);
        done = avx512::apply_moves<Kind>(base.bytes(), base.size(), flags.data(), next, out);
        moves = reinterpret_cast<const Code*>(next);
    }
#endif
    if (out != base.bytes()) {
        std::memcpy(out + done * sizeof(Code), base.bytes(done), (base.size() - done) * sizeof(Code));
    }
    detail::each_set(flags, done, base.size(), [&](std::size_t i) {
        const Code code = moved<Kind>(base[i], *moves++);
        std::memcpy(out + i * sizeof code, &code, sizeof code);
    });
}

// Maps from (bucket, member), as they are coded, to one row of buckets a member.
template <class Kind>
std::vector<std::uint8_t> rows_of(const std::vector<std::uint8_t>& map, std::size_t members) {
    std::vector<std::uint8_t> rows(map.size());
    for (std::size_t bucket = 0; bucket < Kind::buckets; ++bucket) {
        for (std::size_t member = 0; member < members; ++member) {
            rows[member * Kind::buckets + bucket] = map[bucket * members + member];
        }
    }
    return rows;
}

// The tables of a block of codes.
template <class Kind>
void tables_of_block(CodeView<Kind> base, const Members& members, const std::vector<std::uint8_t>& rows,
                     std::size_t start, std::size_t end, std::uint8_t* out) {
    members.each_part(start, end, [&](std::size_t member, std::size_t from, std::size_t to) {
        detail::look_up_tables(base, from, to, rows.data() + member * Kind::buckets, out + (from - start));
    });
}

}  // namespace mvcs
