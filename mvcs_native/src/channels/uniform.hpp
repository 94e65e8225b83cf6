// Groups of values to a scale each and codes of 1 to 8 or of 16 bits, packed, and back.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <type_traits>

#include "base/environment.hpp"
#include "base/levels.hpp"
#include "base/span.hpp"

namespace mvcs {

// How groups are coded: what both directions have to know.
struct UniformCoding {
    std::size_t width;
    unsigned bits;
};

namespace detail {

inline constexpr std::size_t uniform_block = 256;         // codes on their way into bits
inline constexpr std::uint32_t least_scale = 0x0D80;      // 2^-100 as bfloat16: nothing below is subnormal
inline constexpr std::uint32_t largest_scale = 0x7F7F;    // the largest bfloat16
inline constexpr float uniform_rounder = 12582912.0f;     // 1.5 * 2^23, as in lattice.hpp

inline std::size_t packed_bytes(std::size_t count, unsigned bits) {
    return count / 8 * bits + (count % 8 * bits + 7) / 8;
}

// Checks what all kernels here are called with, and returns how many bytes of codes a group has.
inline std::size_t checked_coding(UniformCoding coding, std::size_t groups, std::size_t values, std::size_t packed) {
    require((coding.bits >= 1 && coding.bits <= 8) || coding.bits == 16, "codes have 1 to 8 or 16 bits");
    require(coding.width <= std::size_t{1} << 40 && groups <= std::size_t{1} << 40, "too many values");
    const std::size_t bytes = packed_bytes(coding.width, coding.bits);
    const bool whole = coding.width == 0 ? values == 0 : values % coding.width == 0 && values / coding.width == groups;
    require(whole, "groups and values differ in length");
    require(bytes == 0 ? packed == 0 : packed % bytes == 0 && packed / bytes == groups, "codes have another length");
    return bytes;
}

// A bfloat16 that is not less than a float32 pattern without its sign; 0 where that is too small.
inline std::uint16_t rounded_up(std::uint32_t pattern) {
    const std::uint32_t upper = std::min((pattern + 0xFFFF) >> 16, largest_scale);
    return static_cast<std::uint16_t>(upper < least_scale ? 0 : upper);
}

// What a code of 1 stands for: exact.
inline float uniform_step(std::uint16_t scale, unsigned bits) {
    return std::bit_cast<float>(std::uint32_t{scale} << 16) / static_cast<float>(std::uint32_t{1} << (bits - 1));
}

MVCS_INLINE inline std::uint32_t mixed(std::uint32_t number) {
    number = (number ^ (number >> 16)) * 0x7FEB352D;
    number = (number ^ (number >> 15)) * 0x846CA68B;
    return number ^ (number >> 16);
}

MVCS_INLINE inline float nearest_whole(float u) { return (u + uniform_rounder) - uniform_rounder; }

// From 0 to below 1 in steps of 2^-24.
MVCS_INLINE inline float uniform_number(std::uint32_t place, std::uint32_t seed) {
    return static_cast<float>(static_cast<std::int32_t>(mixed(place ^ seed) >> 8)) * 0x1p-24f;
}

// Patterns without their sign are in the order of magnitudes.
MVCS_INLINE inline std::uint32_t magnitude_of(float value) { return std::bit_cast<std::uint32_t>(value) & 0x7FFFFFFF; }

MVCS_INLINE inline std::uint32_t largest_magnitude(const float* values, std::size_t count) {
    std::uint32_t largest = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const std::uint32_t magnitude = magnitude_of(values[i]);
        largest = magnitude > largest ? magnitude : largest;
    }
    return largest;
}

// Counts the magnitudes that are not below a pattern.
MVCS_INLINE inline std::size_t magnitudes_from(const float* values, std::size_t count, std::uint32_t least) {
    std::size_t found = 0;
    for (std::size_t start = 0; start < count; start += uniform_block) {
        const std::size_t end = std::min(count, start + uniform_block);
        std::uint32_t part = 0;  // counters of 32 bits vectorise with what they count
        for (std::size_t i = start; i < end; ++i) part += magnitude_of(values[i]) >= least ? 1 : 0;
        found += part;
    }
    return found;
}

// A pattern that `sent` magnitudes are not below, found bit by bit from the highest; `found` are more only where the
// last of them are equal.
MVCS_INLINE inline std::uint32_t least_of(const float* values, std::size_t count, std::size_t sent, std::size_t& found) {
    std::uint32_t least = 0;
    found = count;
    for (std::uint32_t bit = std::uint32_t{1} << 30; bit != 0 && found != sent; bit >>= 1) {
        const std::size_t from = magnitudes_from(values, count, least | bit);
        if (from >= sent) {
            least |= bit;
            found = from;
        }
    }
    return least;
}

// The mean magnitude as a scale, each magnitude taken to 2^-15 of the largest's: a sum of integers has no order.
MVCS_INLINE inline std::uint16_t mean_scale(const float* values, std::size_t count, std::uint16_t largest) {
    const float step = uniform_step(largest, 16);
    if (step == 0.0f) return 0;
    std::int64_t sum = 0;
    for (std::size_t start = 0; start < count; start += uniform_block) {
        const std::size_t end = std::min(count, start + uniform_block);
        std::int32_t part = 0;
        for (std::size_t i = start; i < end; ++i) {
            const float magnitude = std::bit_cast<float>(magnitude_of(values[i]));
            part += static_cast<std::int32_t>(nearest_whole(magnitude / step));
        }
        sum += part;
    }
    const double mean = static_cast<double>(step) * static_cast<double>(sum) / static_cast<double>(count);
    return rounded_up(std::bit_cast<std::uint32_t>(static_cast<float>(mean)));
}

template <class Code>
MVCS_INLINE inline void restore_block(const Code* __restrict codes, std::size_t count, unsigned bits, float step,
                                      float* __restrict values) {
    const std::int32_t factor = bits == 1 ? 2 : 1;
    const std::int32_t more = bits == 1 ? 1 : 0;
    for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(codes[i] * factor + more) * step;
}

template <bool stochastic, class Code>
MVCS_INLINE inline void code_block(const float* __restrict values, std::size_t count, unsigned bits, float step,
                                   std::uint32_t place, std::uint32_t seed, Code* __restrict codes) {
    const float least = bits == 1 ? -1.0f : -static_cast<float>(std::uint32_t{1} << (bits - 1));
    const float most = -1.0f - least;
    for (std::size_t i = 0; i < count; ++i) {
        const float u = values[i] / step;
        float code = nearest_whole(u);
        if constexpr (stochastic) {
            const float raised = u + uniform_number(place + static_cast<std::uint32_t>(i), seed);
            code = nearest_whole(raised);
            code -= code > raised ? 1.0f : 0.0f;
        }
        code = code > least ? code : least;
        code = code < most ? code : most;
        codes[i] = static_cast<Code>(static_cast<std::int32_t>(code));
    }
}

MVCS_INLINE inline void sign_block(const float* values, std::size_t count, std::int8_t* codes) {
    for (std::size_t i = 0; i < count; ++i) codes[i] = static_cast<std::int8_t>(-static_cast<std::int32_t>(values[i] < 0.0f));
}

// The lowest `bits` of a field of 2 * lane bits, and those of its upper half behind them: bits together, and apart.
MVCS_INLINE inline std::uint64_t joined(std::uint64_t x, unsigned lane, unsigned bits, std::uint64_t ones) {
    const std::uint64_t mask = ones * ((std::uint64_t{1} << bits) - 1);
    return (x & mask) | (((x >> lane) & mask) << bits);
}

MVCS_INLINE inline std::uint64_t parted(std::uint64_t x, unsigned lane, unsigned bits, std::uint64_t ones) {
    const std::uint64_t mask = ones * ((std::uint64_t{1} << bits) - 1);
    return (x & mask) | (((x >> bits) & mask) << lane);
}

inline constexpr std::uint64_t each_16 = 0x0001000100010001;
inline constexpr std::uint64_t each_32 = 0x0000000100000001;

// Codes of a block, eight at a time, to their bits, and back. `packed` has a block of bytes and eight more.
MVCS_INLINE inline void pack_block(const std::int8_t* codes, std::size_t count, unsigned bits, std::uint8_t* packed) {
    for (std::size_t i = 0; i < count; i += 8) {
        std::uint64_t x;
        std::memcpy(&x, codes + i, 8);
        x = joined(joined(joined(x, 8, bits, each_16), 16, 2 * bits, each_32), 32, 4 * bits, 1);
        std::memcpy(packed + i / 8 * bits, &x, 8);
    }
}

MVCS_INLINE inline void unpack_block(const std::uint8_t* packed, std::size_t count, unsigned bits, std::int8_t* codes) {
    for (std::size_t i = 0; i < count; i += 8) {
        std::uint64_t x;
        std::memcpy(&x, packed + i / 8 * bits, 8);
        x = parted(parted(parted(x, 32, 4 * bits, 1), 16, 2 * bits, each_32), 8, bits, each_16);
        std::memcpy(codes + i, &x, 8);
    }
    const std::int32_t sign = 1 << (bits - 1);
    for (std::size_t i = 0; i < count; ++i) codes[i] = static_cast<std::int8_t>((codes[i] ^ sign) - sign);
}

// Calls `block(start, count)` for each block of a group.
template <class Block>
MVCS_INLINE inline void in_uniform_blocks(std::size_t width, const Block& block) {
    for (std::size_t start = 0; start < width; start += uniform_block) block(start, std::min(uniform_block, width - start));
}

// The codes of a block as bytes, padded with zeros to whole bytes of bits.
struct UniformBlock {
    std::array<std::int8_t, uniform_block> codes;
    std::array<std::uint8_t, uniform_block + 8> packed;

    MVCS_INLINE void pack(std::size_t count, unsigned bits, std::uint8_t* out) {
        std::fill(codes.begin() + static_cast<std::ptrdiff_t>(count),
                  codes.begin() + static_cast<std::ptrdiff_t>((count + 7) / 8 * 8), std::int8_t{0});
        pack_block(codes.data(), count, bits, packed.data());
        std::memcpy(out, packed.data(), packed_bytes(count, bits));
    }

    MVCS_INLINE void unpack(const std::uint8_t* from, std::size_t count, unsigned bits) {
        const std::size_t bytes = packed_bytes(count, bits);
        std::memcpy(packed.data(), from, bytes);
        std::memset(packed.data() + bytes, 0, 8);
        unpack_block(packed.data(), (count + 7) / 8 * 8, bits, codes.data());
        for (std::size_t i = count; i % 8 != 0; ++i) require(codes[i] == 0, "bits behind the codes of a group are set");
    }
};

template <bool stochastic>
MVCS_INLINE inline void quantize_group(const float* values, UniformCoding coding, std::uint32_t place, std::uint32_t seed,
                                       std::uint16_t& scale, std::uint8_t* packed, float* restored) {
    const std::size_t width = coding.width;
    const unsigned bits = coding.bits;
    const std::uint32_t largest = largest_magnitude(values, width);
    require(largest < 0x7F800000, "a value is not finite");
    scale = rounded_up(largest);
    if (bits == 1) scale = mean_scale(values, width, scale);
    const float step = uniform_step(scale, bits);
    if (scale == 0) {
        std::fill_n(packed, packed_bytes(width, bits), std::uint8_t{0});
        std::fill_n(restored, width, 0.0f);
        return;
    }
    UniformBlock block;
    std::array<std::int16_t, uniform_block> wide;
    in_uniform_blocks(width, [&](std::size_t start, std::size_t count) MVCS_INLINE {
        const std::uint32_t first = place + static_cast<std::uint32_t>(start);
        if (bits == 16) {
            code_block<stochastic>(values + start, count, bits, step, first, seed, wide.data());
            std::memcpy(packed + 2 * start, wide.data(), 2 * count);
            return restore_block(wide.data(), count, bits, step, restored + start);
        }
        if (bits == 1) {
            sign_block(values + start, count, block.codes.data());
        } else {
            code_block<stochastic>(values + start, count, bits, step, first, seed, block.codes.data());
        }
        restore_block(block.codes.data(), count, bits, step, restored + start);
        block.pack(count, bits, packed + start / 8 * bits);
    });
}

MVCS_INLINE inline void restore_group(std::uint16_t scale, const std::uint8_t* packed, UniformCoding coding, float* values) {
    require(scale <= largest_scale && (scale == 0 || scale >= least_scale), "a scale is none that a quantizer writes");
    const unsigned bits = coding.bits;
    const float step = uniform_step(scale, bits);
    UniformBlock block;
    std::array<std::int16_t, uniform_block> wide;
    in_uniform_blocks(coding.width, [&](std::size_t start, std::size_t count) MVCS_INLINE {
        if (bits == 16) {
            std::memcpy(wide.data(), packed + 2 * start, 2 * count);
            return restore_block(wide.data(), count, bits, step, values + start);
        }
        block.unpack(packed + start / 8 * bits, count, bits);
        restore_block(block.codes.data(), count, bits, step, values + start);
    });
}

}  // namespace detail

// Writes the scale, the packed codes and the restored values of groups of finite values. Rounding is to the nearest
// code, or down after a random number of the place and a seed was added.
inline void quantize_groups(std::span<const float> values, UniformCoding coding, bool stochastic, std::uint32_t seed,
                            std::span<std::uint16_t> scales, MutableBytes packed, std::span<float> restored) {
    const std::size_t bytes = detail::checked_coding(coding, scales.size(), values.size(), packed.size());
    require(restored.size() == values.size(), "values and restored values differ in length");
    require(!stochastic || coding.bits > 1, "a sign cannot be rounded");
    const DefaultEnvironment environment;
    const std::uint32_t mixed_seed = detail::mixed(seed);
    at_active_level([&]() MVCS_INLINE {
        for (std::size_t group = 0; group < scales.size(); ++group) {
            const std::size_t at = group * coding.width;
            const auto place = static_cast<std::uint32_t>(at);
            const auto quantize = [&](auto random) MVCS_INLINE {
                detail::quantize_group<random.value>(values.data() + at, coding, place, mixed_seed, scales[group],
                                                     packed.data() + group * bytes, restored.data() + at);
            };
            stochastic ? quantize(std::true_type()) : quantize(std::false_type());
        }
    });
}

// Writes the values that scales and packed codes stand for.
inline void restore_groups(std::span<const std::uint16_t> scales, Bytes packed, UniformCoding coding,
                           std::span<float> values) {
    const std::size_t bytes = detail::checked_coding(coding, scales.size(), values.size(), packed.size());
    const DefaultEnvironment environment;
    at_active_level([&]() MVCS_INLINE {
        for (std::size_t group = 0; group < scales.size(); ++group) {
            detail::restore_group(scales[group], packed.data() + group * bytes, coding, values.data() + group * coding.width);
        }
    });
}

// Packs codes of at most 8 bits, one signed byte each.
inline void pack_groups(std::span<const std::int8_t> codes, std::size_t groups, UniformCoding coding,
                        MutableBytes packed) {
    const std::size_t bytes = detail::checked_coding(coding, groups, codes.size(), packed.size());
    require(coding.bits <= 8, "codes have at most 8 bits");
    const int half = 1 << (coding.bits - 1);
    at_active_level([&]() MVCS_INLINE {
        detail::UniformBlock block;
        int outside = 0;
        for (std::size_t group = 0; group < groups; ++group) {
            detail::in_uniform_blocks(coding.width, [&](std::size_t start, std::size_t count) MVCS_INLINE {
                const std::int8_t* const from = codes.data() + group * coding.width + start;
                for (std::size_t i = 0; i < count; ++i) {
                    block.codes[i] = from[i];
                    outside |= (from[i] < -half) | (from[i] >= half);
                }
                block.pack(count, coding.bits, packed.data() + group * bytes + start / 8 * coding.bits);
            });
        }
        require(outside == 0, "a code has more bits");
    });
}

// Unpacks what `pack_groups` packed.
inline void unpack_groups(Bytes packed, std::size_t groups, UniformCoding coding, std::span<std::int8_t> codes) {
    const std::size_t bytes = detail::checked_coding(coding, groups, codes.size(), packed.size());
    require(coding.bits <= 8, "codes have at most 8 bits");
    at_active_level([&]() MVCS_INLINE {
        detail::UniformBlock block;
        for (std::size_t group = 0; group < groups; ++group) {
            detail::in_uniform_blocks(coding.width, [&](std::size_t start, std::size_t count) MVCS_INLINE {
                block.unpack(packed.data() + group * bytes + start / 8 * coding.bits, count, coding.bits);
                std::memcpy(codes.data() + group * coding.width + start, block.codes.data(), count);
            });
        }
    });
}

// Marks the values of each group that are largest in magnitude, of equal ones the first.
inline void mark_largest(std::span<const float> values, std::size_t width, std::size_t sent, std::span<bool> marks) {
    require(width != 0 && values.size() % width == 0, "values are not whole groups");
    require(sent != 0 && sent <= width, "no group has so many values");
    require(marks.size() == values.size(), "values and marks differ in length");
    at_active_level([&]() MVCS_INLINE {
        for (std::size_t at = 0; at < values.size(); at += width) {
            const float* const from = values.data() + at;
            bool* const out = marks.data() + at;
            std::size_t found;
            const std::uint32_t least = detail::least_of(from, width, sent, found);
            for (std::size_t i = 0; i < width; ++i) out[i] = detail::magnitude_of(from[i]) >= least;
            for (std::size_t i = width; found > sent;) {  // of the last ones, which are equal
                const bool equal = detail::magnitude_of(from[--i]) == least;
                out[i] = out[i] && !equal;
                found -= equal ? 1 : 0;
            }
        }
    });
}

}  // namespace mvcs
