// Codes alone in static rANS: one symbol a code, tables by member.
#pragma once

#include "base/lookup.hpp"
#include "moves/moves.hpp"

namespace mvcs {

enum class CodesMode : std::uint8_t { raw = 0, coded = 1 };

namespace detail {

inline constexpr Escape word_escape{escape_symbol, 16};

// Symbols of codes of two bytes alone; those of one byte are their own.
inline void alone_symbols(CodeView<WordCodes> codes, std::uint8_t* out) {
    at_active_level([codes, out]() MVCS_INLINE {
        const CodeView<WordCodes> from = codes;  // locals: bytes written could be those of the lambda itself
        std::uint8_t* const to = out;
        for (std::size_t i = 0; i < from.size(); ++i) {
            to[i] = static_cast<std::uint8_t>(std::min<std::uint16_t>(zigzag_code<WordCodes>(from[i]), escape_symbol));
        }
    });
}

inline void put_raw(Payload& out, const void* from, std::size_t size) {
    const auto* bytes = static_cast<const std::uint8_t*>(from);
    out.insert(out.end(), bytes, bytes + size);
}

// Calls each(i) for the symbols that are escapes, in order.
template <class Each>
void each_escape(Bytes symbols, Each each) {
    for (std::size_t i = 0; i < symbols.size(); ++i) {
        const void* const found = std::memchr(symbols.data() + i, escape_symbol, symbols.size() - i);
        if (found == nullptr) return;
        i = static_cast<std::size_t>(static_cast<const std::uint8_t*>(found) - symbols.data());
        each(i);
    }
}

// Whether a table has every symbol of a context.
inline bool has_all(const Model& model, std::uint8_t table, std::span<const Contexts::Entry> context) {
    return std::all_of(context.begin(), context.end(), [&](const Contexts::Entry& entry) {
        return model.has(table, static_cast<std::uint8_t>(entry.symbol));
    });
}

// What each symbol is stored as: itself, or as an escape where the table lacks it.
inline std::array<std::uint8_t, symbol_count> stored_symbols(const Model& model, std::uint8_t table) {
    std::array<std::uint8_t, symbol_count> stored;
    for (std::size_t s = 0; s < symbol_count; ++s) {
        const auto symbol = static_cast<std::uint8_t>(s);
        stored[s] = model.has(table, symbol) ? symbol : escape_symbol;
    }
    return stored;
}

// Symbols by one table a member, which is fitted to them.
inline Contexts member_contexts(Bytes symbols, const Members& members) {
    Contexts contexts(symbol_count);
    for (std::size_t m = 0; m < members.size(); ++m) {
        TableCounts counts(symbol_count);
        const CodeView<ByteCodes> all(symbols.data(), symbols.size());
        count_buckets(all, members.start(m), members.end(m), counts.data());
        contexts.add(CountsView(counts));
    }
    return contexts;
}

inline void put_member_symbols(Payload& out, Bytes symbols, const Members& members, const Model& model) {
    if (model.certain()) return;
    put_symbol_blocks(out, symbols, model, [&](std::size_t start, std::size_t size, std::uint8_t* tables) {
        members.each_part(start, start + size, [&](std::size_t member, std::size_t from, std::size_t to) {
            std::memset(tables + (from - start), model.map[member], to - from);
        });
    });
}

inline void put_coded(Payload& out, CodeView<ByteCodes> codes, const Members& members) {
    const Bytes symbols(codes.bytes(), codes.size());
    const Model model = fit_model(member_contexts(symbols, members));
    put_model(out, model, symbol_count);
    put_member_symbols(out, symbols, members, model);
}

inline void put_coded(Payload& out, CodeView<WordCodes> codes, const Members& members) {
    Scratch<std::uint8_t> symbols(codes.size());
    alone_symbols(codes, symbols.data());
    const Contexts contexts = member_contexts(symbols.first(codes.size()), members);
    const Model model = fit_model(contexts, word_escape);
    put_model(out, model, symbol_count);
    for (std::size_t m = 0; m < members.size(); ++m) {
        if (has_all(model, model.map[m], contexts[m])) continue;
        const std::span part(symbols.data() + members.start(m), members.end(m) - members.start(m));
        look_up(stored_symbols(model, model.map[m]), part, part.data());
    }
    put_member_symbols(out, symbols.first(codes.size()), members, model);
    each_escape(symbols.first(codes.size()), [&](std::size_t i) {
        const WordCodes::Code code = codes[i];
        put_raw(out, &code, sizeof code);
    });
}

template <class Kind>
void take_coded(ByteReader& payload, const Members& members, std::uint8_t* out) {
    using Code = typename Kind::Code;
    const std::size_t codes = members.codes();
    const Model model = take_model(payload, symbol_count, members.size());
    Scratch<std::uint8_t> tables(codes);
    for (std::size_t m = 0; m < members.size(); ++m) {
        std::fill(tables.data() + members.start(m), tables.data() + members.end(m), model.map[m]);
    }
    if constexpr (sizeof(Code) == 1) {
        take_uncertain_symbols(payload, tables.first(codes), model, {out, codes});
        return;
    }
    Scratch<std::uint8_t> symbols(codes);
    take_uncertain_symbols(payload, tables.first(codes), model, symbols.first(codes));
    for (std::size_t i = 0; i < codes; ++i) {
        const auto code = static_cast<Code>(unzigzag(symbols[i]));
        std::memcpy(out + i * sizeof code, &code, sizeof code);
    }
    each_escape(symbols.first(codes), [&](std::size_t i) {
        std::memcpy(out + i * sizeof(Code), payload.take(sizeof(Code)).data(), sizeof(Code));
    });
}

}  // namespace detail

// Calls with(Kind{}) for codes of this width in bytes.
template <class With>
auto for_width(std::size_t width, With with) {
    require(width == 1 || width == 2, "codes are not one or two bytes wide");
    return width == 1 ? with(ByteCodes{}) : with(WordCodes{});
}

inline Payload encode_rans_codes(Bytes codes, std::size_t width, const Members& members) {
    require(codes.size() == members.codes() * width, "codes and counts differ in length");
    Payload out;
    if (codes.empty()) return out;
    out.push_back(static_cast<std::uint8_t>(CodesMode::coded));
    for_width(width, [&]<class Kind>(Kind) {
        detail::put_coded(out, CodeView<Kind>(codes.data(), members.codes()), members);
    });
    if (out.size() <= codes.size()) return out;
    out.assign(1, static_cast<std::uint8_t>(CodesMode::raw));
    detail::put_raw(out, codes.data(), codes.size());
    return out;
}

// On an error `out` holds bytes of no meaning.
inline void decode_rans_codes(Bytes payload, std::size_t width, const Members& members, MutableBytes out) {
    require(out.size() == members.codes() * width, "codes and counts differ in length");
    ByteReader reader(payload);
    if (!out.empty()) {
        const std::uint8_t mode = reader.byte();
        require(mode <= static_cast<std::uint8_t>(CodesMode::coded), "a payload has an unknown mode");
        if (static_cast<CodesMode>(mode) == CodesMode::raw) {
            const Bytes raw = reader.take(out.size());
            std::copy(raw.begin(), raw.end(), out.begin());
        } else {
            for_width(width, [&]<class Kind>(Kind) { detail::take_coded<Kind>(reader, members, out.data()); });
        }
    }
    require(reader.empty(), "the payload has bytes to spare");
}

}  // namespace mvcs
