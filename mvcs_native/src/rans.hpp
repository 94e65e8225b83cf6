// Streams of symbols in interleaved static rANS (Duda 2013, arXiv:1311.2540, section 3; lanes as in Giesen 2014,
// arXiv:1402.3392): states of 32 bits, renormalized by words of 16, frequencies of 12.
#pragma once

#include <memory>

#include "cluster.hpp"
#include "cpu.hpp"

namespace mvcs {

static_assert(std::endian::native == std::endian::little, "words are copied as they lie in memory");

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
          room_(symbols + max_lanes),
          words_(std::make_unique_for_overwrite<std::uint16_t[]>(room_)),
          next_(words_.get() + room_) {
        states_.fill(first_state);
    }

    std::size_t count() const { return count_; }
    std::uint32_t* states() { return states_.data(); }
    std::uint16_t*& next() { return next_; }

    void finish(std::vector<std::uint8_t>& out) const {
        out.push_back(static_cast<std::uint8_t>(std::bit_width(count_) - 1));
        append(out, states_.data(), 4 * count_);
        append(out, next_, static_cast<std::size_t>(words_.get() + room_ - next_) * 2);
    }

  private:
    static void append(std::vector<std::uint8_t>& out, const void* from, std::size_t size) {
        const auto* bytes = static_cast<const std::uint8_t*>(from);
        out.insert(out.end(), bytes, bytes + size);
    }

    std::size_t count_;
    std::size_t room_;
    std::unique_ptr<std::uint16_t[]> words_;
    std::uint16_t* next_;
    std::array<std::uint32_t, max_lanes> states_;
};

namespace detail {

// What encoding a symbol takes. state / frequency is (state * reciprocal) >> 44 for every state below
// frequency * 2^20: the reciprocal is rounded up by less than one part in 2^32 (Granlund and Montgomery 1994).
struct EncodingStep {
    std::uint64_t reciprocal = 0;
    std::uint32_t frequency = 0;
    std::uint32_t start = 0;
};

inline constexpr unsigned reciprocal_bits = 44;

inline std::vector<EncodingStep> encoding_steps(const Tables& tables) {
    std::vector<EncodingStep> steps(tables.size() * max_alphabet);
    for (std::size_t t = 0; t < tables.size(); ++t) {
        std::uint32_t start = 0;
        for (std::size_t s = 0; s < max_alphabet; ++s) {
            const std::uint32_t frequency = tables[t][s];
            if (frequency == 0) continue;
            const std::uint64_t reciprocal = ((std::uint64_t{1} << reciprocal_bits) + frequency - 1) / frequency;
            steps[t * max_alphabet + s] = {reciprocal, frequency, start};
            start += frequency;
        }
    }
    return steps;
}

// What a slot of 12 bits decodes to: the symbol in 8 bits, its frequency less one in 12, the slot's place in it in 12.
inline std::vector<std::uint32_t> decoding_slots(const Tables& tables) {
    std::vector<std::uint32_t> slots(tables.size() * frequency_whole);
    auto next = slots.begin();
    for (const auto& frequencies : tables) {
        for (std::uint32_t symbol = 0; symbol < max_alphabet; ++symbol) {
            const std::uint32_t frequency = frequencies[symbol];
            for (std::uint32_t place = 0; place < frequency; ++place) {
                *next++ = symbol | (frequency - 1) << 8 | place << 20;
            }
        }
    }
    return slots;
}

inline std::uint8_t decode_symbol(std::uint32_t& state, const std::uint32_t* slots, std::size_t table) {
    const std::uint32_t slot = slots[table << frequency_bits | (state & (frequency_whole - 1))];
    state = ((slot >> 8 & (frequency_whole - 1)) + 1) * (state >> frequency_bits) + (slot >> 20);
    return static_cast<std::uint8_t>(slot);
}

// Whole rounds of all lanes, while every lane is sure to find its word; returns how many symbols that made.
inline std::size_t decode_rounds(Lanes& lanes, const std::uint32_t* slots, Bytes tables, MutableBytes out) {
    std::size_t i = 0;
    for (; i + lanes.count <= out.size() && lanes.words_left() >= lanes.count; i += lanes.count) {
        for (std::size_t lane = 0; lane < lanes.count; ++lane) {
            out[i + lane] = decode_symbol(lanes.states[lane], slots, tables[i + lane]);
            lanes.refill_unchecked(lanes.states[lane]);
        }
    }
    return i;
}

}  // namespace detail

// Decodes a stream piece by piece. All pieces but the last have a multiple of 64 symbols.
class SymbolDecoder {
  public:
    // `tables` come from take_model, so that every table sums to 4096.
    SymbolDecoder(ByteReader& payload, const Tables& tables)
        : reader_(payload), slots_(detail::decoding_slots(tables)) {}

    // The next symbols, each by the table of this number, which is below the number of tables.
    void take(Bytes tables, MutableBytes out) {
        require(tables.size() == out.size(), "symbols and their tables differ in number");
        Lanes& lanes = reader_.lanes();
        for (std::size_t i = detail::decode_rounds(lanes, slots_.data(), tables, out); i < out.size(); ++i) {
            std::uint32_t& state = lanes.states[i % lanes.count];
            out[i] = detail::decode_symbol(state, slots_.data(), tables[i]);
            lanes.refill(state);
        }
    }

    void finish() { reader_.finish(); }

  private:
    LaneReader reader_;
    std::vector<std::uint32_t> slots_;
};

// Encodes a stream piece by piece, the last piece first. All pieces but the stream's last have a multiple of 64 symbols.
class SymbolEncoder {
  public:
    SymbolEncoder(std::size_t symbols, const Tables& tables, unsigned power)
        : writer_(symbols, power), steps_(detail::encoding_steps(tables)) {}

    // Symbols that go before those of the last call. Each table must have its symbol.
    void put(Bytes tables, Bytes symbols) {
        require(tables.size() == symbols.size(), "symbols and their tables differ in number");
        std::uint16_t*& next = writer_.next();
        std::uint32_t* states = writer_.states();
        const std::size_t mask = writer_.count() - 1;
        for (std::size_t i = symbols.size(); i-- > 0;) {
            const auto& step = steps_[tables[i] * max_alphabet + symbols[i]];
            std::uint32_t& state = states[i & mask];
            missing_ |= step.frequency == 0;
            const bool full = state >> (32 - frequency_bits) >= step.frequency;
            next[-1] = static_cast<std::uint16_t>(state);
            next -= full;
            state >>= full ? 16 : 0;
            const auto quotient = static_cast<std::uint32_t>(state * step.reciprocal >> detail::reciprocal_bits);
            state += step.start + quotient * (frequency_whole - step.frequency);
        }
    }

    void finish(std::vector<std::uint8_t>& out) const {
        require(!missing_, "a table lacks a symbol");
        writer_.finish(out);
    }

  private:
    LaneWriter writer_;
    std::vector<detail::EncodingStep> steps_;
    bool missing_ = false;
};

// Appends a whole stream; `power` from lanes_for(model.bits). No symbols are no bytes.
inline void put_symbols(std::vector<std::uint8_t>& out, Bytes tables, Bytes symbols, const Model& model) {
    if (symbols.empty()) return;
    SymbolEncoder encoder(symbols.size(), model.tables, lanes_for(model.bits));
    encoder.put(tables, symbols);
    encoder.finish(out);
}

// Takes a whole stream of as many symbols as `out` has room for. On an error `out` holds bytes of no meaning.
inline void take_symbols(ByteReader& payload, Bytes tables, const Model& model, MutableBytes out) {
    if (out.empty()) return;
    SymbolDecoder decoder(payload, model.tables);
    decoder.take(tables, out);
    decoder.finish();
}

}  // namespace mvcs
