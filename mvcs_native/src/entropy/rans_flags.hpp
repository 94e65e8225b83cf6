// Streams of flags in interleaved static rANS: as streams of symbols, with probabilities of 15 bits.
#pragma once

#include "entropy/rans.hpp"

namespace mvcs {

using Chances = std::vector<std::uint32_t>;  // of a zero, in each table, of 2^15

inline std::size_t flag_words(std::size_t flags) { return (flags + 63) / 64; }

// Chances and their map, as both sides know them, and how long the flags will be.
struct FlagModel {
    Chances chances;
    std::vector<std::uint8_t> map;  // the table of each context
    std::size_t bits = 0;
};

namespace detail {

inline std::uint32_t chance_of_zero(std::uint64_t zeros, std::uint64_t ones) {
    if (zeros == 0 || ones == 0) return ones == 0 ? chance_whole : 0;
    const std::uint64_t sum = zeros + ones;
    const std::uint64_t share = (2 * zeros * chance_whole + sum) / (2 * sum);
    return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(share, 1, chance_whole - 1));
}

inline Price flags_price(const TableCounts& counts, std::uint32_t chance) {
    return counts[0] * (bits_price(chance_bits) - log2_price(chance)) +
           counts[1] * (bits_price(chance_bits) - log2_price(chance_whole - chance));
}

}  // namespace detail

// Fits chances to contexts over the alphabet 0, 1, of which one at least has flags.
inline FlagModel fit_flags(const Contexts& contexts, std::size_t group = 1) {
    Clustering clustering = cluster(contexts, group);
    FlagModel model;
    model.map = std::move(clustering.map);
    Price price = 0;
    for (const auto& counts : clustering.tables) {
        model.chances.push_back(detail::chance_of_zero(counts[0], counts[1]));
        price += detail::flags_price(counts, model.chances.back());
    }
    model.bits = whole_bits(price);
    return model;
}

// One bit stream: the number of tables less one in 4 bits, each chance in 16, the map.
inline void put_flag_model(Payload& out, const FlagModel& model) {
    BitWriter bits(out);
    bits.put(static_cast<std::uint32_t>(model.chances.size() - 1), 4);
    for (const auto chance : model.chances) bits.put(chance, 16);
    put_map(bits, model.map, model.chances.size());
    bits.finish();
}

inline FlagModel take_flag_model(ByteReader& payload, std::size_t contexts) {
    BitReader bits(payload.rest());
    bits.refill();
    FlagModel model;
    model.chances.resize(bits.take(4) + std::size_t{1});
    for (auto& chance : model.chances) {
        bits.refill();
        chance = bits.take(16);
        require(chance <= chance_whole, "a chance is above 1");
    }
    model.map.resize(contexts);
    take_map(bits, model.map, model.chances.size());
    payload.take(bits.used_bytes());
    return model;
}

// The same without the chances, where flags are stored as gaps.
inline void put_flag_map(Payload& out, const FlagModel& model) {
    BitWriter bits(out);
    bits.put(static_cast<std::uint32_t>(model.chances.size() - 1), 4);
    put_map(bits, model.map, model.chances.size());
    bits.finish();
}

inline FlagModel take_flag_map(ByteReader& payload, std::size_t contexts) {
    BitReader bits(payload.rest());
    bits.refill();
    FlagModel model;
    model.chances.resize(bits.take(4) + std::size_t{1});
    model.map.resize(contexts);
    take_map(bits, model.map, model.chances.size());
    payload.take(bits.used_bytes());
    return model;
}

namespace detail {

inline bool decode_flag(std::uint32_t& state, std::uint32_t chance) {
    const std::uint32_t slot = state & (chance_whole - 1);
    const std::uint32_t zero = 0U - static_cast<std::uint32_t>(slot < chance);  // as a mask: nobody can predict it
    const std::uint32_t frequency = (chance & zero) | ((chance_whole - chance) & ~zero);
    state = frequency * (state >> chance_bits) + slot - (chance & ~zero);
    return zero == 0;
}

// Whole words of flags, while every lane is sure to find its words; returns how many flags that made.
inline std::size_t decode_flag_words(Lanes& lanes, const std::uint32_t* chances, Bytes tables, FlagWords out) {
    std::size_t i = 0;
#ifdef MVCS_X86
    if (active_level() == Level::avx512) i = avx512::decode_flags(lanes, chances, tables, out);
    if (active_level() == Level::avx2) i = avx2::decode_flags(lanes, chances, tables, out);
#endif
    for (; i + 64 <= tables.size() && lanes.words_left() >= 64; i += 64) {
        std::uint64_t word = 0;
        for (std::size_t bit = 0; bit < 64; ++bit) {
            std::uint32_t& state = lanes.states[bit & (lanes.count - 1)];
            word |= std::uint64_t{decode_flag(state, chances[tables[i + bit]])} << bit;
            lanes.refill_seldom(state);
        }
        out[i / 64] = word;
    }
    return i;
}

inline constexpr unsigned flag_reciprocal_bits = 47;

// What encoding a flag takes, at twice its table plus the flag. Dividing by a chance needs one digit more than dividing
// by a frequency of 12 bits: states are below chance * 2^17.
struct FlagSteps {
    std::array<std::uint64_t, 2 * max_tables> reciprocal{};
    std::array<std::uint32_t, 2 * max_tables> largest_state{};  // that needs no word taken off; 0: no such flag
    std::array<std::uint32_t, 2 * max_tables> start{};
    std::array<std::uint32_t, 2 * max_tables> others{};  // 2^15 less the flag's chance

    explicit FlagSteps(const Chances& chances) {
        for (std::size_t t = 0; t < chances.size(); ++t) {
            set(2 * t, chances[t], 0);
            set(2 * t + 1, chance_whole - chances[t], chances[t]);
        }
    }

  private:
    void set(std::size_t at, std::uint32_t chance, std::uint32_t first) {
        if (chance == 0) return;
        reciprocal[at] = ((std::uint64_t{1} << flag_reciprocal_bits) + chance - 1) / chance;
        largest_state[at] = static_cast<std::uint32_t>((std::uint64_t{chance} << (32 - chance_bits)) - 1);
        start[at] = first;
        others[at] = chance_whole - chance;
    }
};

}  // namespace detail

// Decodes a stream piece by piece. All pieces but the last have a multiple of 64 flags.
class FlagDecoder {
  public:
    FlagDecoder(ByteReader& payload, const Chances& chances) : reader_(payload), chances_(chances) {
        chances_.resize(max_tables);
    }

    // The next flags, each by the table of this number, which is below the number of tables.
    void take(Bytes tables, FlagWords out) {
        require(out.size() == flag_words(tables.size()), "flags and their tables differ in number");
        Lanes& lanes = reader_.lanes();
        std::size_t i = detail::decode_flag_words(lanes, chances_.data(), tables, out);
        for (std::size_t word = i / 64; word < out.size(); ++word) out[word] = 0;
        for (; i < tables.size(); ++i) {
            std::uint32_t& state = lanes.states[i & (lanes.count - 1)];
            out[i / 64] |= std::uint64_t{detail::decode_flag(state, chances_[tables[i]])} << i % 64;
            lanes.refill(state);
        }
    }

    void finish() { reader_.finish(); }

  private:
    LaneReader reader_;
    Chances chances_;
};

// Encodes a stream piece by piece, the last piece first. All pieces but the stream's last have a multiple of 64 flags.
class FlagEncoder {
  public:
    FlagEncoder(std::size_t flags, const Chances& chances, unsigned power)
        : writer_(flags, power), chances_(chances), steps_(chances) {
        chances_.resize(max_tables);
    }

    // Flags that go before those of the last call. Each table must allow its flag.
    void put(Bytes tables, ConstFlagWords flags) {
        require(flags.size() == flag_words(tables.size()), "flags and their tables differ in number");
        std::size_t words = 0;
#ifdef MVCS_X86
        if (avx512::fits(writer_) || avx2::fits(writer_)) words = tables.size() / 64;
#endif
        put_singly(tables, flags, words * 64);
#ifdef MVCS_X86
        if (words == 0) return;
        const auto encode = avx512::fits(writer_) ? avx512::encode_flags : avx2::encode_flags;
        missing_ |= !encode(writer_, chances_.data(), tables, flags.first(words));
#endif
    }

    void finish(Payload& out) const {
        require(!missing_, "a table lacks a flag");
        writer_.finish(out);
    }

  private:
    // The flags from `start` on, word by word.
    void put_singly(Bytes tables, ConstFlagWords flags, std::size_t start) {
        std::array<std::uint8_t, 64> steps;
        for (std::size_t at = tables.size(); at > start;) {
            const std::size_t count = (at - 1) % 64 + 1;
            at -= count;
            std::array<std::uint8_t, 64> padded{};
            std::memcpy(padded.data(), tables.data() + at, count);
            for (std::size_t i = 0; i < 64; i += 8) {
                std::uint64_t table;
                std::memcpy(&table, &padded[i], sizeof table);
                const std::uint64_t both = 2 * table + detail::flag_bytes(flags[at / 64] >> i);
                std::memcpy(&steps[i], &both, sizeof both);
            }
            put_word(steps.data(), count);
        }
    }

    void put_word(const std::uint8_t* steps, std::size_t count) {
        const auto& [reciprocal, largest_state, start, others] = steps_;
        std::uint16_t* next = writer_.next();  // a local: bytes read could be those of the member
        std::uint32_t* const states = writer_.states();
        const std::size_t mask = writer_.count() - 1;
        for (std::size_t i = count; i-- > 0;) {
            const std::size_t step = steps[i];
            std::uint32_t state = states[i & mask];
            if (state > largest_state[step]) [[unlikely]] {
                missing_ |= largest_state[step] == 0;
                *--next = static_cast<std::uint16_t>(state);
                state >>= 16;
            }
            const auto quotient = static_cast<std::uint32_t>(state * reciprocal[step] >> detail::flag_reciprocal_bits);
            states[i & mask] = state + start[step] + quotient * others[step];
        }
        writer_.next() = next;
    }

    LaneWriter writer_;
    Chances chances_;
    detail::FlagSteps steps_;
    bool missing_ = false;
};

// Appends a whole stream. No flags are no bytes.
inline void put_flags(Payload& out, Bytes tables, ConstFlagWords flags, const FlagModel& model) {
    if (tables.empty()) return;
    FlagEncoder encoder(tables.size(), model.chances, lanes_for(model.bits));
    encoder.put(tables, flags);
    encoder.finish(out);
}

// Takes a whole stream of as many flags as there are tables. On an error `out` holds bits of no meaning.
inline void take_flags(ByteReader& payload, Bytes tables, const FlagModel& model, FlagWords out) {
    if (tables.empty()) return;
    FlagDecoder decoder(payload, model.chances);
    decoder.take(tables, out);
    decoder.finish();
}

}  // namespace mvcs
