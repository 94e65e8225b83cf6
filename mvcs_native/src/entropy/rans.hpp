// Streams of symbols in interleaved static rANS (Duda 2013, arXiv:1311.2540, section 3; lanes as in Giesen 2014,
// arXiv:1402.3392): states of 32 bits, renormalized by words of 16, frequencies of 12.
#pragma once

#include "entropy/models.hpp"
#include "entropy/rans_avx2.hpp"
#include "entropy/rans_avx512.hpp"

namespace mvcs {

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

// A symbol's start in the upper half, its frequency in the lower.
inline std::vector<std::uint32_t> packed_steps(const std::vector<EncodingStep>& steps) {
    std::vector<std::uint32_t> packed;
    for (const auto& step : steps) packed.push_back(step.start << 16 | step.frequency);
    return packed;
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
#ifdef MVCS_X86
    if (active_level() == Level::avx512) i = avx512::decode_symbols(lanes, slots, tables, out);
    if (active_level() == Level::avx2) i = avx2::decode_symbols(lanes, slots, tables, out);
#endif
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
        : writer_(symbols, power), steps_(detail::encoding_steps(tables)), packed_(detail::packed_steps(steps_)) {}

    // Symbols that go before those of the last call. Each table must have its symbol.
    void put(Bytes tables, Bytes symbols) {
        require(tables.size() == symbols.size(), "symbols and their tables differ in number");
        std::size_t rounds = 0;
#ifdef MVCS_X86
        if (avx512::fits(writer_) || avx2::fits(writer_)) rounds = symbols.size() / max_lanes * max_lanes;
#endif
        put_singly(tables, symbols, rounds);
#ifdef MVCS_X86
        if (rounds == 0) return;
        const auto encode = avx512::fits(writer_) ? avx512::encode_symbols : avx2::encode_symbols;
        missing_ |= !encode(writer_, packed_.data(), tables, symbols.first(rounds));
#endif
    }

    void finish(Payload& out) const {
        require(!missing_, "a table lacks a symbol");
        writer_.finish(out);
    }

  private:
    // The symbols from `start` on, one after another.
    void put_singly(Bytes tables, Bytes symbols, std::size_t start) {
        std::uint16_t* next = writer_.next();  // locals: bytes read could be those of the members
        bool missing = false;
        std::uint32_t* states = writer_.states();
        const std::size_t mask = writer_.count() - 1;
        for (std::size_t i = symbols.size(); i-- > start;) {
            const auto& step = steps_[tables[i] * max_alphabet + symbols[i]];
            std::uint32_t& state = states[i & mask];
            missing |= step.frequency == 0;
            const bool full = state >> (32 - frequency_bits) >= step.frequency;
            next[-1] = static_cast<std::uint16_t>(state);
            next -= full;
            state >>= full ? 16 : 0;
            const auto quotient = static_cast<std::uint32_t>(state * step.reciprocal >> detail::reciprocal_bits);
            state += step.start + quotient * (frequency_whole - step.frequency);
        }
        writer_.next() = next;
        missing_ |= missing;
    }

    LaneWriter writer_;
    std::vector<detail::EncodingStep> steps_;
    std::vector<std::uint32_t> packed_;
    bool missing_ = false;
};

// Appends a whole stream; its lanes are as its length asks. No symbols are no bytes.
inline void put_symbols(Payload& out, Bytes tables, Bytes symbols, const Model& model) {
    if (symbols.empty()) return;
    SymbolEncoder encoder(symbols.size(), model.tables, lanes_for(model.bits));
    encoder.put(tables, symbols);
    encoder.finish(out);
}

// The same where tables(start, size, out) writes the tables of a block of symbols.
template <class TablesOfBlock>
void put_symbol_blocks(Payload& out, Bytes symbols, const Model& model, TablesOfBlock tables_of_block) {
    SymbolEncoder encoder(symbols.size(), model.tables, lanes_for(model.bits));
    std::array<std::uint8_t, block_symbols> tables;
    for (std::size_t block = (symbols.size() + block_symbols - 1) / block_symbols; block-- > 0;) {
        const std::size_t start = block * block_symbols;
        const std::size_t size = std::min(block_symbols, symbols.size() - start);
        tables_of_block(start, size, tables.data());
        encoder.put(Bytes(tables).first(size), symbols.subspan(start, size));
    }
    encoder.finish(out);
}

// Takes a whole stream of as many symbols as `out` has room for. On an error `out` holds bytes of no meaning.
inline void take_symbols(ByteReader& payload, Bytes tables, const Model& model, MutableBytes out) {
    if (out.empty()) return;
    SymbolDecoder decoder(payload, model.tables);
    decoder.take(tables, out);
    decoder.finish();
}

// The same but for symbols that are certain, which are no bytes either.
inline void put_uncertain_symbols(Payload& out, Bytes tables, Bytes symbols, const Model& model) {
    if (!model.certain()) put_symbols(out, tables, symbols, model);
}

inline void take_uncertain_symbols(ByteReader& payload, Bytes tables, const Model& model, MutableBytes out) {
    const auto only = model.certain();
    if (!only) return take_symbols(payload, tables, model, out);
    require(tables.size() == out.size(), "symbols and their tables differ in number");
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = (*only)[tables[i]];
}

}  // namespace mvcs
