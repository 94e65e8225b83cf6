// Codes near base codes in static rANS: which changed, and how those did.
#pragma once

#include "entropy/gaps.hpp"
#include "moves/rans_codes.hpp"
#include "moves/rescale.hpp"

namespace mvcs {

// Which codes changed: none, or those between gaps. Added to 4 where steps follow.
enum class MovesMode : std::uint8_t { unchanged = 0, gaps = 2 };

// The step bytes of a member's base codes and of its codes.
struct Steps {
    std::uint8_t of_base;
    std::uint8_t of_codes;
};

namespace detail {

inline constexpr std::uint8_t steps_follow = 4;
inline constexpr Escape byte_escape{escape_symbol, 8};

template <class Kind>
constexpr Escape move_escape() {
    return sizeof(typename Kind::Code) == 1 ? byte_escape : word_escape;
}

// One bit a member, set where its step changed; then both steps of those.
inline void put_steps(Payload& out, std::span<const Steps> steps) {
    const std::size_t bits = out.size();
    out.resize(bits + (steps.size() + 7) / 8);
    for (std::size_t m = 0; m < steps.size(); ++m) {
        if (steps[m].of_base == steps[m].of_codes) continue;
        out[bits + m / 8] |= static_cast<std::uint8_t>(1U << m % 8);
        out.push_back(steps[m].of_base);
        out.push_back(steps[m].of_codes);
    }
}

inline std::vector<Steps> take_steps(ByteReader& payload, std::size_t members) {
    const Bytes bits = payload.take((members + 7) / 8);
    require(members % 8 == 0 || bits.back() >> members % 8 == 0, "a member beyond the last has steps");
    std::vector<Steps> steps(members, Steps{0, 0});
    for (std::size_t m = 0; m < members; ++m) {
        if ((bits[m / 8] >> m % 8 & 1) == 0) continue;
        steps[m].of_base = payload.byte();
        steps[m].of_codes = payload.byte();
    }
    return steps;
}

inline bool any_changed(std::span<const Steps> steps) {
    return std::any_of(steps.begin(), steps.end(), [](const Steps& s) { return s.of_base != s.of_codes; });
}

// The base in the steps of the codes.
inline Scratch<std::int16_t> rescaled(Bytes base, const Members& members, std::span<const Steps> steps) {
    Scratch<std::int16_t> out(members.codes());
    if (!base.empty()) std::memcpy(out.data(), base.data(), base.size());
    for (std::size_t m = 0; m < members.size(); ++m) {
        if (steps[m].of_base == steps[m].of_codes) continue;
        const std::span part(out.data() + members.start(m), members.end(m) - members.start(m));
        rescale(part, steps[m].of_base, steps[m].of_codes, part);
    }
    return out;
}

// The codes that changed, in order, and what both models count.
template <class Kind>
class Changes {
  public:
    using Code = typename Kind::Code;

    Changes(CodeView<Kind> codes, CodeView<Kind> base, const Members& members)
        : flags(flag_words(codes.size())),
          buckets(codes.size()),
          symbols(codes.size()),
          moves(codes.size() + 64),
          near_(codes.size() + 64),
          flag_contexts_(2),
          move_contexts_(symbol_count) {
        gather(codes, base);
        if (count > 0) tally(base, members);
    }

    const Contexts& flag_contexts() const { return flag_contexts_; }
    const Contexts& move_contexts() const { return move_contexts_; }

    std::vector<std::uint64_t> flags;
    Scratch<std::uint8_t> buckets;  // of each change
    Scratch<std::uint8_t> symbols;
    Scratch<Code> moves;
    std::vector<std::size_t> ends;  // of each member's changes
    std::size_t count = 0;

  private:
    using Entries = std::vector<Contexts::Entry>;

    void gather(CodeView<Kind> codes, CodeView<Kind> base) {
        for (std::size_t start = 0; start < codes.size(); start += block_symbols) {
            const std::size_t size = std::min(block_symbols, codes.size() - start);
            const auto words = FlagWords(flags).subspan(start / 64, flag_words(size));
            difference_words(codes.part(start, size), base.part(start, size), words);
            compress(codes.part(start, size), words, moves.data() + count);
            count += compress(base.part(start, size), words, near_.data() + count);
        }
        for (std::size_t i = 0; i < count; ++i) buckets[i] = static_cast<std::uint8_t>(Kind::bucket(near_[i]));
        for (std::size_t i = 0; i < count; ++i) moves[i] = move_between<Kind>(near_[i], moves[i]);
        for (std::size_t i = 0; i < count; ++i) symbols[i] = symbol_of<Kind>(moves[i]);
    }

    void tally(CodeView<Kind> base, const Members& members) {
        std::vector<std::uint32_t> totals(members.size() * Kind::buckets);
        std::vector<std::uint32_t> changed(totals.size());
        std::vector<Entries> entries(totals.size());
        std::vector<std::uint32_t> counts(Kind::buckets * symbol_count);
        for (std::size_t m = 0, next = 0; m < members.size(); ++m) {
            count_buckets(base, members.start(m), members.end(m), totals.data() + m * Kind::buckets);
            std::size_t end = next;
            each_word(flags, members.start(m), members.end(m),
                      [&](std::uint64_t word, std::size_t) { end += static_cast<std::size_t>(std::popcount(word)); });
            ends.push_back(end);
            for (; next < end; ++next) {
                ++changed[m * Kind::buckets + buckets[next]];
                ++counts[buckets[next] * symbol_count + symbols[next]];
            }
            for (std::size_t b = 0; b < Kind::buckets; ++b) {
                if (changed[m * Kind::buckets + b] == 0) continue;
                entries[m * Kind::buckets + b] = moved_out(std::span(counts).subspan(b * symbol_count, symbol_count));
            }
        }
        for (std::size_t b = 0; b < Kind::buckets; ++b) {
            for (std::size_t m = 0; m < members.size(); ++m) {
                const std::size_t context = m * Kind::buckets + b;
                flag_contexts_.add(std::array{totals[context] - changed[context], changed[context]});
                move_contexts_.add(entries[context]);
            }
        }
    }

    static Entries moved_out(std::span<std::uint32_t> counts) {
        Entries entries;
        for (std::uint32_t s = 0; s < counts.size(); ++s) {
            if (counts[s] != 0) entries.push_back({s, std::exchange(counts[s], 0U)});
        }
        return entries;
    }

    Scratch<Code> near_;  // the base code of each change
    Contexts flag_contexts_;
    Contexts move_contexts_;
};

template <class Kind>
void put_gaps(Payload& out, CodeView<Kind> base, const Members& members, const std::vector<std::uint64_t>& flags,
              const GapModel& model) {
    const auto rows = rows_of<Kind>(model.map, members.size());
    GapWriter writer(model.classes);
    std::array<std::uint8_t, block_symbols> class_of;
    for (std::size_t start = 0; start < base.size(); start += block_symbols) {
        const std::size_t size = std::min(block_symbols, base.size() - start);
        tables_of_block(base, members, rows, start, start + size, class_of.data());
        writer.add(Bytes(class_of).first(size), ConstFlagWords(flags).subspan(start / 64, flag_words(size)));
    }
    writer.finish(out);
}

// The moves of all changes: their symbols as one stream, then the escaped ones as they are.
template <class Kind>
void put_moves(Payload& out, const Changes<Kind>& changes, const Members& members,
               const Model& model) {
    const auto rows = rows_of<Kind>(model.map, members.size());
    Scratch<std::uint8_t> tables(changes.count);
    Scratch<std::uint8_t> symbols(changes.count);
    std::vector<typename Kind::Code> escaped;
    for (std::size_t m = 0, i = 0; m < members.size(); ++m) {
        const std::uint8_t* row = rows.data() + m * Kind::buckets;
        for (; i < changes.ends[m]; ++i) {
            tables[i] = row[changes.buckets[i]];
            symbols[i] = model.has(tables[i], changes.symbols[i]) ? changes.symbols[i] : escape_symbol;
            if (symbols[i] == escape_symbol) escaped.push_back(changes.moves[i]);
        }
    }
    put_uncertain_symbols(out, tables.first(changes.count), symbols.first(changes.count), model);
    put_raw(out, escaped.data(), escaped.size() * sizeof(typename Kind::Code));
}

// What follows the steps; nothing for codes that did not change. Returns the mode.
template <class Kind>
MovesMode put_changes(Payload& out, CodeView<Kind> codes, CodeView<Kind> base,
                      const Members& members) {
    const Changes<Kind> changes(codes, base, members);
    if (changes.count == 0) return MovesMode::unchanged;
    const GapModel gap_model = fit_gaps(changes.flag_contexts(), members.size());
    const Model move_model = fit_model(changes.move_contexts(), move_escape<Kind>(), members.size());
    put_model(out, move_model, symbol_count);
    put_gap_model(out, gap_model);
    put_gaps(out, base, members, changes.flags, gap_model);
    put_moves(out, changes, members, move_model);
    return MovesMode::gaps;
}

// Reads block by block which codes changed, and calls found(start, size, flags) for each block, with its flags.
template <class Kind, class Found>
void take_gaps(GapReader& gaps, CodeView<Kind> base, const Members& members, const GapModel& model, Found found) {
    const auto rows = rows_of<Kind>(model.map, members.size());
    gaps.start();
    std::array<std::uint8_t, block_symbols> class_of{};
    std::array<std::uint64_t, block_symbols / 64> flags;
    for (std::size_t start = 0; start < base.size(); start += block_symbols) {
        const std::size_t size = std::min(block_symbols, base.size() - start);
        if (model.classes > 1) tables_of_block(base, members, rows, start, start + size, class_of.data());
        const auto words = FlagWords(flags).first(flag_words(size));
        gaps.take(Bytes(class_of).first(size), words);
        found(start, size, words);
    }
    gaps.finish();
}

// Where codes changed.
template <class Kind>
Scratch<std::uint32_t> take_places(GapReader& gaps, CodeView<Kind> base, const Members& members,
                                   const GapModel& model) {
    Scratch<std::uint32_t> places(gaps.size() + places_room);
    std::size_t count = 0;
    take_gaps(gaps, base, members, model, [&](std::size_t start, std::size_t, ConstFlagWords flags) {
        count += put_places(flags, start, places.data() + count);
    });
    return places;
}

// The moves of all changes, by their tables, with 64 bytes behind them.
template <class Kind>
Scratch<typename Kind::Code> take_moves(ByteReader& payload, const Model& model, Bytes tables) {
    using Code = typename Kind::Code;
    Scratch<std::uint8_t> symbols(tables.size());
    take_uncertain_symbols(payload, tables, model, symbols.first(tables.size()));
    Scratch<Code> moves(tables.size() + 64);
    for (std::size_t i = 0; i < tables.size(); ++i) moves[i] = move_of<Kind>(symbols[i]);
    each_escape(symbols.first(tables.size()), [&](std::size_t i) {
        std::memcpy(&moves[i], payload.take(sizeof(Code)).data(), sizeof(Code));
    });
    return moves;
}

// Moves codes one by one, by the places of the changes.
template <class Kind>
void take_changes_singly(ByteReader& payload, CodeView<Kind> base, const Members& members, const Model& model,
                      const GapModel& gap_model, GapReader& gaps, std::uint8_t* out) {
    const auto places = gap_model.classes == 1 ? gaps.take_places() : take_places(gaps, base, members, gap_model);
    const std::size_t count = gaps.size();
    const auto rows = rows_of<Kind>(model.map, members.size());
    Scratch<std::uint8_t> tables(count);
    for (std::size_t m = 0, i = 0; m < members.size(); ++m) {
        const std::uint8_t* const row = rows.data() + m * Kind::buckets;
        for (; i < count && places[i] < members.end(m); ++i) tables[i] = row[Kind::bucket(base[places[i]])];
    }
    const auto moves = take_moves<Kind>(payload, model, tables.first(count));
    if (out != base.bytes()) std::memcpy(out, base.bytes(), base.size() * sizeof(typename Kind::Code));
    for (std::size_t i = 0; i < count; ++i) {
        const auto code = moved<Kind>(base[places[i]], moves[i]);
        std::memcpy(out + places[i] * sizeof code, &code, sizeof code);
    }
}

template <class Kind>
void take_changes(ByteReader& payload, CodeView<Kind> base, const Members& members, std::uint8_t* out) {
    const Model model = take_model(payload, symbol_count, members.size() * Kind::buckets);
    const GapModel gap_model = take_gap_model(payload, members.size() * Kind::buckets);
    GapReader gaps(payload, gap_model.classes, base.size());
    if (singly(gaps.size(), base.size(), out == base.bytes())) {
        return take_changes_singly(payload, base, members, model, gap_model, gaps, out);
    }
    std::vector<std::uint64_t> flags(flag_words(base.size()));
    const auto rows = rows_of<Kind>(model.map, members.size());
    Scratch<std::uint8_t> tables(gaps.size() + 64);
    std::memset(tables.data(), 0, tables.size());
    std::array<std::uint8_t, block_symbols> each;
    std::size_t count = 0;
    take_gaps(gaps, base, members, gap_model, [&](std::size_t start, std::size_t size, ConstFlagWords words) {
        std::copy(words.begin(), words.end(), flags.begin() + static_cast<std::ptrdiff_t>(start / 64));
        if (model.tables.size() == 1) return;
        tables_of_block(base, members, rows, start, start + size, each.data());
        count += compress(CodeView<ByteCodes>(each.data(), size), words, tables.data() + count);
    });
    const auto moves = take_moves<Kind>(payload, model, tables.first(gaps.size()));
    apply_moves<Kind>(base, flags, moves.first(gaps.size()), out);
}

}  // namespace detail

// Encodes codes near base codes. `steps`, for codes of two bytes only, is empty or one a member; a base of another
// step is re-expressed first.
inline Payload encode_rans_moves(Bytes codes, Bytes base, std::size_t width, const Members& members,
                                                   std::span<const Steps> steps) {
    require(codes.size() == members.codes() * width, "codes and counts differ in length");
    require(base.size() == codes.size(), "codes and base differ in length");
    require(steps.empty() || (width == 2 && steps.size() == members.size()), "steps do not fit the members");
    Payload out(1);
    const bool steps_changed = detail::any_changed(steps);
    std::optional<Scratch<std::int16_t>> near;
    if (steps_changed) {
        detail::put_steps(out, steps);
        near = detail::rescaled(base, members, steps);
        base = Bytes(reinterpret_cast<const std::uint8_t*>(near->data()), base.size());
    }
    const MovesMode mode = for_width(width, [&]<class Kind>(Kind) {
        return detail::put_changes(out, CodeView<Kind>(codes.data(), members.codes()),
                                   CodeView<Kind>(base.data(), members.codes()), members);
    });
    out[0] = static_cast<std::uint8_t>(static_cast<unsigned>(mode) | (steps_changed ? detail::steps_follow : 0U));
    return out;
}

// `out` may be the base. On an error it holds bytes of no meaning.
inline void decode_rans_moves(Bytes payload, Bytes base, std::size_t width, const Members& members, MutableBytes out) {
    require(out.size() == members.codes() * width, "codes and counts differ in length");
    require(base.size() == out.size(), "codes and base differ in length");
    ByteReader reader(payload);
    const std::uint8_t first = reader.byte();
    const auto mode = static_cast<MovesMode>(first % detail::steps_follow);
    const bool known = mode == MovesMode::unchanged || mode == MovesMode::gaps;
    require(first < 2 * detail::steps_follow && known, "a payload has an unknown mode");
    std::optional<Scratch<std::int16_t>> near;
    if ((first & detail::steps_follow) != 0) {
        require(width == 2, "only codes of two bytes have steps");
        near = detail::rescaled(base, members, detail::take_steps(reader, members.size()));
        base = Bytes(reinterpret_cast<const std::uint8_t*>(near->data()), base.size());
    }
    if (mode == MovesMode::unchanged) {
        if (base.data() != out.data()) std::copy(base.begin(), base.end(), out.begin());
    } else {
        for_width(width, [&]<class Kind>(Kind) {
            detail::take_changes(reader, CodeView<Kind>(base.data(), members.codes()), members, out.data());
        });
    }
    require(reader.empty(), "the payload has bytes to spare");
}

}  // namespace mvcs
