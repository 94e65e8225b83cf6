// Interleaved rANS states: what one lane does, how lanes are read from and written to a payload.
#pragma once

#include <algorithm>
#include <array>

#include "base/bits.hpp"
#include "base/cpu.hpp"

namespace mvcs {

inline constexpr unsigned frequency_bits = 12;  // of a symbol
inline constexpr std::uint32_t frequency_whole = 1U << frequency_bits;

// Numbers near 0 as small numbers: 0, -1, 1, -2, …
inline std::uint32_t zigzag(std::int32_t value) {
    return static_cast<std::uint32_t>(value) << 1 ^ static_cast<std::uint32_t>(value >> 31);
}

inline std::int32_t unzigzag(std::uint32_t folded) {
    return static_cast<std::int32_t>(folded >> 1 ^ (0U - (folded & 1)));
}

// One bit a flag: flag i is bit i mod 64 of word i / 64; the bits behind the last flag are zero.
using FlagWords = std::span<std::uint64_t>;
using ConstFlagWords = std::span<const std::uint64_t>;

inline std::size_t flag_words(std::size_t flags) { return (flags + 63) / 64; }

namespace detail {

// Eight bytes of 0 or 1 as flags; a multiplication moves all of them at once.
inline std::uint64_t packed_flags(std::uint64_t bytes) { return bytes * 0x0102040810204080U >> 56; }

}  // namespace detail

inline constexpr std::size_t max_lanes = 64;
inline constexpr std::uint32_t first_state = 1U << 16;  // of every lane; a decoder must come back to it
inline constexpr std::size_t block_symbols = std::size_t{1} << 14;  // a multiple of any number of lanes

// How many lanes, as a power of two, for a stream of about so many bits: a lane costs about 3 bytes.
inline unsigned lanes_for(std::size_t bits) {
    const std::size_t lanes = std::clamp<std::size_t>(bits / 4096, 1, max_lanes);
    return static_cast<unsigned>(std::bit_width(lanes) - 1);
}

// States of all lanes, and where the next word comes from. Symbol i is of lane i mod lanes.
struct Lanes {
    std::array<std::uint32_t, max_lanes> states;
    std::size_t count;
    const std::uint8_t* next;
    const std::uint8_t* end;

    std::size_t words_left() const { return static_cast<std::size_t>(end - next) / 2; }

    std::uint32_t word() const {
        std::uint16_t value;
        std::memcpy(&value, next, sizeof value);
        return value;
    }

    // Refills a state that fell below 2^16; at most one word is due.
    void refill(std::uint32_t& state) {
        if (state >= first_state) return;
        require(words_left() > 0, "a stream of symbols ends early");
        state = state << 16 | word();
        next += 2;
    }

    // The same where a word is known to be there, without a branch.
    void refill_unchecked(std::uint32_t& state) {
        const bool due = state < first_state;
        state = due ? state << 16 | word() : state;
        next += due ? 2 : 0;
    }
};

// Takes a stream off the front of a payload: the lanes' power of two in a byte, their states, and words as needed.
class LaneReader {
  public:
    explicit LaneReader(ByteReader& payload) : payload_(payload) {
        const unsigned power = payload.byte();
        require((std::size_t{1} << std::min(power, 31U)) <= max_lanes, "a stream of symbols has too many lanes");
        lanes_.count = std::size_t{1} << power;
        const Bytes states = payload.take(4 * lanes_.count);
        lanes_.states.fill(first_state);
        std::memcpy(lanes_.states.data(), states.data(), states.size());
        for (const auto state : lanes_.states) require(state >= first_state, "a state is too small");
        const Bytes words = payload.rest();
        lanes_.next = words.data();
        lanes_.end = words.data() + words.size();
    }

    Lanes& lanes() { return lanes_; }

    // Call after the last symbol.
    void finish() {
        for (const auto state : lanes_.states) require(state == first_state, "a stream of symbols is damaged");
        payload_.take(static_cast<std::size_t>(lanes_.next - payload_.rest().data()));
    }

  private:
    ByteReader& payload_;
    Lanes lanes_{};
};

// Collects a stream from its last symbol to its first; room for one word a symbol is all it can need.
class LaneWriter {
  public:
    LaneWriter(std::size_t symbols, unsigned power)
        : count_(std::size_t{1} << power),
          words_(symbols + max_lanes),
          next_(words_.data() + words_.size()) {
        states_.fill(first_state);
    }

    std::size_t count() const { return count_; }
    std::uint32_t* states() { return states_.data(); }
    std::uint16_t*& next() { return next_; }

    void finish(Payload& out) const {
        out.push_back(static_cast<std::uint8_t>(std::bit_width(count_) - 1));
        append(out, states_.data(), 4 * count_);
        append(out, next_, static_cast<std::size_t>(words_.data() + words_.size() - next_) * 2);
    }

  private:
    static void append(Payload& out, const void* from, std::size_t size) {
        const auto* bytes = static_cast<const std::uint8_t*>(from);
        out.insert(out.end(), bytes, bytes + size);
    }

    std::size_t count_;
    Scratch<std::uint16_t> words_;
    std::uint16_t* next_;
    std::array<std::uint32_t, max_lanes> states_;
};

}  // namespace mvcs
