// Kinds of codes: their width, the buckets of base codes, and moves between codes.
#pragma once

#include <algorithm>
#include <cstring>
#include <optional>

#include "entropy/lanes.hpp"

namespace mvcs {

inline constexpr std::uint8_t escape_symbol = 255;  // the move follows as it is
inline constexpr std::size_t symbol_count = 256;

// Codes of one byte: every base code is a bucket of its own.
struct ByteCodes {
    using Code = std::uint8_t;
    using Signed = std::int8_t;
    static constexpr std::size_t buckets = 256;

    static Code bucket(Code base) { return base; }
    static Code turned(Code base, Code move) { (void)base; return move; }
};

// Codes of two bytes, signed: buckets by magnitude; moves count away from zero, so that both sides share tables.
struct WordCodes {
    using Code = std::uint16_t;
    using Signed = std::int16_t;
    static constexpr std::size_t buckets = 16;

    static Code bucket(Code base) {
        return std::min(turned(base, base), static_cast<Code>(buckets - 1));
    }
    static Code turned(Code base, Code move) {
        const auto negative = static_cast<Code>(static_cast<Signed>(base) >> 15);
        return static_cast<Code>((move ^ negative) - negative);
    }
};

// Codes as they lie in a buffer of bytes, wherever that starts.
template <class Kind>
class CodeView {
  public:
    using Code = typename Kind::Code;

    CodeView(const std::uint8_t* bytes, std::size_t count) : bytes_(bytes), count_(count) {}

    std::size_t size() const { return count_; }
    CodeView part(std::size_t start, std::size_t count) const { return {bytes(start), count}; }
    const std::uint8_t* bytes(std::size_t at = 0) const { return bytes_ + at * sizeof(Code); }

    Code operator[](std::size_t i) const {
        Code code;
        std::memcpy(&code, bytes(i), sizeof code);
        return code;
    }

  private:
    const std::uint8_t* bytes_;
    std::size_t count_;
};

// Moves wrap around at the width of a code, so that there is one for any code near any base.
template <class Kind>
typename Kind::Code move_between(typename Kind::Code base, typename Kind::Code code) {
    return Kind::turned(base, static_cast<typename Kind::Code>(code - base));
}

template <class Kind>
typename Kind::Code moved(typename Kind::Code base, typename Kind::Code move) {
    return static_cast<typename Kind::Code>(base + Kind::turned(base, move));
}

// Zigzag within the width of a code.
template <class Kind>
typename Kind::Code zigzag_code(typename Kind::Code code) {
    using Code = typename Kind::Code;
    const auto negative = static_cast<Code>(static_cast<typename Kind::Signed>(code) >> (8 * sizeof(Code) - 1));
    return static_cast<Code>((code << 1) ^ negative);
}

// Zigzag of the move less one; a move is never 0.
template <class Kind>
std::uint8_t symbol_of(typename Kind::Code move) {
    using Code = typename Kind::Code;
    const auto folded = static_cast<Code>(zigzag_code<Kind>(move) - 1);
    return static_cast<std::uint8_t>(std::min(folded, static_cast<Code>(escape_symbol)));
}

template <class Kind>
typename Kind::Code move_of(std::uint8_t symbol) {
    return static_cast<typename Kind::Code>(unzigzag(symbol + 1U));
}

}  // namespace mvcs
