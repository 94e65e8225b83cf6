// RANS_RESIDUAL: a chunk near a base of the same type, exact. Differences in the order of the values, their sizes by
// rANS with a table for each context of the base, their low bits as they are.
#pragma once

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/lookup.hpp"
#include "base/words.hpp"
#include "entropy/models.hpp"
#include "entropy/rans.hpp"
#include "exact/lacking.hpp"
#include "exact/ordered.hpp"
#include "exact/tails.hpp"

namespace mvcs {

inline constexpr std::uint8_t residual_escape = 255;  // the symbol itself stands among the escaped ones

namespace detail {

// Tables are fitted to pieces of a chunk, so that tensors that share one need not share tables.
inline constexpr unsigned piece_power = 16;  // of their words
inline constexpr std::size_t piece_words = std::size_t{1} << piece_power;

// For finding out what contexts are alike: symbols of 16 and more by the upper bits and the sign.
inline std::uint32_t coarse_symbol(std::uint32_t symbol) {
    return symbol < 16 ? symbol : 12 + (symbol >> 3) * 2 + (symbol & 1);
}
inline constexpr std::size_t coarse_alphabet = 76;

// Counts of symbols, in full and coarse, for each context of each piece.
struct ResidualCounts {
    Contexts full{max_alphabet};
    Contexts coarse{coarse_alphabet};
    std::vector<std::uint32_t> piece = std::vector<std::uint32_t>(base_contexts * max_alphabet);

    void add_piece(const std::uint8_t* context_of, const std::uint8_t* symbols, std::size_t count) {
        std::fill(piece.begin(), piece.end(), 0U);
        std::array<std::uint8_t, base_contexts> present{};
        std::uint32_t* const counts = piece.data();
        for (std::size_t i = 0; i < count; ++i) {
            ++counts[context_of[i] * max_alphabet + symbols[i]];
            present[context_of[i]] = 1;
        }
        for (std::size_t context = 0; context < base_contexts; ++context) {
            add_context(std::span(piece).subspan(context * max_alphabet, present[context] * max_alphabet));
        }
    }

  private:
    void add_context(CountsView counts) {
        std::array<std::uint32_t, coarse_alphabet> coarse_counts{};
        for (std::uint32_t s = 0; s < counts.size(); ++s) coarse_counts[coarse_symbol(s)] += counts[s];
        full.add(counts);
        coarse.add(coarse_counts);
    }
};

inline Model residual_model(const ResidualCounts& counts) {
    Clustering clustering = cluster(counts.coarse);
    for (auto& table : clustering.tables) table.assign(max_alphabet, 0);
    for (std::size_t i = 0; i < clustering.map.size(); ++i) {
        add_counts(clustering.tables[clustering.map[i]], counts.full[i]);
    }
    return fit_tables(std::move(clustering), Escape{residual_escape, 8});
}

inline std::span<const std::uint8_t, base_contexts> piece_map(const Model& model, std::size_t piece) {
    return std::span(model.map).subspan(piece * base_contexts).first<base_contexts>();
}

template <class Stored>
class ResidualEncoder {
  public:
    using Word = Wide<Stored>;

    ResidualEncoder(Bytes content, Bytes base, bool floating)
        : count_(content.size() / sizeof(Stored)),
          symbols_(count_),
          contexts_(count_),
          tails_(count_) {
        TailSlice<Word> tails;
        for (std::size_t at = 0; at < count_; at += slice_words) {
            const std::size_t size = std::min(slice_words, count_ - at);
            const Bytes near = base.subspan(at * sizeof(Stored), size * sizeof(Stored));
            const Bytes part = content.subspan(at * sizeof(Stored), near.size());
            describe_slice<Stored>(part, near, floating, &symbols_[at], tails);
            contexts_of_slice<Stored>(near, floating, &contexts_[at]);
            tails_.put(tails, size);
        }
    }

    Payload payload() {
        const Model model = fitted();
        const std::vector<std::uint8_t> escaped = escape(model);
        const Bytes tails = tails_.finish();
        Payload out;
        out.reserve(tails.size() + escaped.size() + model.bits / 8 + 8192);
        put_model(out, model, max_alphabet);
        put_sized(out, escaped);
        put_sized(out, tails);
        put_symbols(out, contexts_.first(count_), symbols_.first(count_), model);
        return out;
    }

  private:
    Model fitted() {
        ResidualCounts counts;
        each_piece([&](std::size_t, std::size_t at, std::size_t size) {
            counts.add_piece(&contexts_[at], &symbols_[at], size);
        });
        return residual_model(counts);
    }

    // Turns contexts into tables, and symbols that their tables lack into escapes, which it returns.
    std::vector<std::uint8_t> escape(const Model& model) {
        std::vector<std::uint8_t> escaped;
        const LackingSymbols lacking(model.tables);
        each_piece([&](std::size_t piece, std::size_t at, std::size_t size) {
            std::uint8_t* const tables = &contexts_[at];
            std::uint8_t* const symbols = &symbols_[at];
            look_up(piece_map(model, piece), {tables, size}, tables);
            lacking.each(tables, symbols, size, [&](std::size_t i) {
                escaped.push_back(std::exchange(symbols[i], residual_escape));
            });
        });
        return escaped;
    }

    template <class Each>
    void each_piece(Each each) const {
        for (std::size_t at = 0; at < count_; at += piece_words) {
            each(at >> piece_power, at, std::min(piece_words, count_ - at));
        }
    }

    std::size_t count_;
    Scratch<std::uint8_t> symbols_;
    Scratch<std::uint8_t> contexts_;  // then tables
    TailWriter<Word> tails_;
};

template <class Stored>
class ResidualDecoder {
  public:
    using Word = Wide<Stored>;

    ResidualDecoder(ByteReader& payload, std::size_t count, bool floating)
        : floating_(floating),
          model_(take_model(payload, max_alphabet, base_contexts * (((count - 1) >> piece_power) + 1))),
          escaped_(payload.take(payload.varint())),
          tails_(payload.take(payload.varint())),
          symbols_(payload, model_.tables) {
        for (const auto& table : model_.tables) check_symbols(table);
    }

    void decode(Bytes base, MutableBytes out) {
        const std::size_t count = out.size() / sizeof(Stored);
        for (std::size_t at = 0; at < count; at += slice_words) {  // a piece is several slices
            const std::size_t size = std::min(slice_words, count - at) * sizeof(Stored);
            take(at >> piece_power, base.subspan(at * sizeof(Stored), size), out.subspan(at * sizeof(Stored), size));
        }
        finish();
    }

  private:
    // At most slice_words words of one piece, and as many but for the last ones.
    void take(std::size_t piece, Bytes base, MutableBytes out) {
        const std::size_t count = out.size() / sizeof(Stored);
        std::array<std::uint8_t, slice_words> tables;
        std::array<std::uint8_t, slice_words> symbols;
        TailSlice<Word> tails;
        const auto named = MutableBytes(symbols).first(count);
        contexts_of_slice<Stored>(base, floating_, tables.data());
        look_up(piece_map(model_, piece), Bytes(tables).first(count), tables.data());
        symbols_.take(Bytes(tables).first(count), named);
        if (escapes_) replace_escapes(named);
        lengths_of_slice<Word>(named, tails);
        tails_.take(tails, count);
        apply_slice<Stored>(base, named, tails, floating_, out);
    }

    void finish() {
        require(escaped_.empty(), "escaped symbols are left over");
        tails_.finish();
        symbols_.finish();
    }

    void check_symbols(const Frequencies& table) {
        for (std::size_t s = 0; s < residual_escape; ++s) {
            if (table[s] != 0) check_symbol(static_cast<std::uint8_t>(s));
        }
        escapes_ |= table[residual_escape] != 0;
    }

    static void check_symbol(std::uint8_t symbol) {
        const unsigned tail = tail_length_of<Word>(symbol);
        require(symbol != residual_escape && (tail == 0 || tail + refinement<Word> < word_bits<Stored>),
                "a difference is too long for its word");
    }

    void replace_escapes(MutableBytes symbols) {
        auto* const end = symbols.data() + symbols.size();
        for (auto* at = symbols.data();; ++at) {
            at = static_cast<std::uint8_t*>(std::memchr(at, residual_escape, static_cast<std::size_t>(end - at)));
            if (at == nullptr) return;
            *at = escaped_.byte();
            check_symbol(*at);
        }
    }

    bool floating_;
    Model model_;
    ByteReader escaped_;
    TailReader<Word> tails_;
    SymbolDecoder symbols_;
    bool escapes_ = false;
};

}  // namespace detail

// Words of `width` bytes near those of a base as long. Nothing changed is an empty payload.
inline Payload encode_residual(Bytes content, Bytes base, std::size_t width, bool floating) {
    require(content.size() == base.size(), "a chunk and its base differ in length");
    return detail::with_stored(width, [&]<class Stored>(Stored) -> Payload {
        detail::check_words(content.size(), width);
        if (std::equal(content.begin(), content.end(), base.begin())) return {};
        return detail::ResidualEncoder<Stored>(content, base, floating).payload();
    });
}

// `out` may be the base. On an error it holds bytes of no meaning.
inline void decode_residual(Bytes payload, Bytes base, std::size_t width, bool floating, MutableBytes out) {
    require(out.size() == base.size(), "a chunk and its base differ in length");
    detail::with_stored(width, [&]<class Stored>(Stored) {
        detail::check_words(out.size(), width);
        if (payload.empty()) {
            if (base.data() != out.data()) std::copy(base.begin(), base.end(), out.begin());
            return;
        }
        require(!out.empty(), "no words have a payload");
        ByteReader reader(payload);
        detail::ResidualDecoder<Stored> decoder(reader, out.size() / width, floating);
        decoder.decode(base, out);
        require(reader.empty(), "the payload has bytes to spare");
    });
}

}  // namespace mvcs
