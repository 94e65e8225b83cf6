// Bit streams, most significant bit first, and little-endian base-128 integers.
#pragma once

#include <array>
#include <bit>
#include <cstring>
#include <vector>

#include "base/scratch.hpp"
#include "base/span.hpp"

namespace mvcs {

class BitWriter {
  public:
    explicit BitWriter(Payload& out) : out_(out) {}

    // Appends the low `length` bits of `value`; at most 32 at a time, the bits above them zero.
    void put(std::uint32_t value, unsigned length) {
        pending_ = pending_ << length | value;
        held_ += length;
        if (held_ < 32) return;
        held_ -= 32;
        const auto word = static_cast<std::uint32_t>(pending_ >> held_);
        for (unsigned shift = 32; shift > 0; shift -= 8) {
            collected_[count_++] = static_cast<std::uint8_t>(word >> (shift - 8));
        }
        if (count_ == collected_.size()) flush();
    }

    // Fills the last byte up with zeros.
    void finish() {
        put(0, (8 - held_ % 8) % 8);
        flush();
        for (; held_ > 0; held_ -= 8) out_.push_back(static_cast<std::uint8_t>(pending_ >> (held_ - 8)));
    }

  private:
    void flush() {
        out_.insert(out_.end(), collected_.begin(), collected_.begin() + static_cast<std::ptrdiff_t>(count_));
        count_ = 0;
    }

    Payload& out_;
    std::array<std::uint8_t, 256> collected_;
    std::size_t count_ = 0;
    std::uint64_t pending_ = 0;
    unsigned held_ = 0;
};

class BitReader {
  public:
    explicit BitReader(Bytes bytes) : bytes_(bytes) {}

    // Makes at least 56 bits available. Past the end the stream reads as zeros, which finish() reports.
    void refill() {
        const std::size_t byte = used_ / 8;
        std::uint64_t word = 0;
        if (byte + 8 <= bytes_.size()) {
            std::memcpy(&word, bytes_.data() + byte, sizeof word);
        } else if (byte < bytes_.size()) {
            std::memcpy(&word, bytes_.data() + byte, bytes_.size() - byte);
        }
        window_ = swapped(word) << used_ % 8;
    }

    // The next `length` bits, 1 to 32; together with skip() at most 56 bits between two refills.
    std::uint32_t peek(unsigned length) const { return static_cast<std::uint32_t>(window_ >> (64 - length)); }

    void skip(unsigned length) {
        window_ <<= length;
        used_ += length;
    }

    std::uint32_t take(unsigned length) {
        const auto value = static_cast<std::uint32_t>(window_ >> 1 >> (63 - length));  // of no bits, too
        skip(length);
        return value;
    }

    // How many bytes were used so far, for a stream that others follow; the spare bits of the last one are zero.
    std::size_t used_bytes() const {
        require(used_ <= bytes_.size() * 8, "a bit stream ends early");
        const auto spare = static_cast<unsigned>(-used_ % 8);
        require(spare == 0 || (bytes_[used_ / 8] & ((1U << spare) - 1)) == 0, "spare bits are not zero");
        return (used_ + 7) / 8;
    }

    // Accepts only a stream that was used up to its last byte and whose spare bits are zero.
    void finish() const {
        require(used_bytes() == bytes_.size(), "a bit stream has bytes to spare");
    }

  private:
    static std::uint64_t swapped(std::uint64_t word) {
        word = (word & 0x00FF00FF00FF00FFULL) << 8 | (word >> 8 & 0x00FF00FF00FF00FFULL);
        word = (word & 0x0000FFFF0000FFFFULL) << 16 | (word >> 16 & 0x0000FFFF0000FFFFULL);
        return word << 32 | word >> 32;
    }

    Bytes bytes_;
    std::size_t used_ = 0;  // bits
    std::uint64_t window_ = 0;
};

inline std::size_t varint_size(std::size_t value) {
    std::size_t size = 1;
    for (; value >= 128; value >>= 7) ++size;
    return size;
}

inline void put_varint(Payload& out, std::size_t value) {
    for (; value >= 128; value >>= 7) out.push_back(static_cast<std::uint8_t>(value | 128));
    out.push_back(static_cast<std::uint8_t>(value));
}

// Takes bytes off the front of a payload and never runs past its end.
class ByteReader {
  public:
    explicit ByteReader(Bytes bytes) : bytes_(bytes) {}

    bool empty() const { return bytes_.empty(); }

    Bytes take(std::size_t count) {
        require(count <= bytes_.size(), "the payload ends early");
        const Bytes taken = bytes_.first(count);
        bytes_ = bytes_.subspan(count);
        return taken;
    }

    std::uint8_t byte() { return take(1)[0]; }

    Bytes rest() const { return bytes_; }

    // At most four bytes, which is more than any group needs, and no longer than necessary.
    std::size_t varint() {
        std::size_t value = 0;
        for (unsigned shift = 0; shift < 28; shift += 7) {
            const std::uint8_t part = byte();
            value |= static_cast<std::size_t>(part & 127) << shift;
            if (part < 128) {
                require(part != 0 || shift == 0, "a length has needless bytes");
                return value;
            }
        }
        throw Invalid("a length is too long");
    }

  private:
    Bytes bytes_;
};

}  // namespace mvcs
