// Contexts that share frequency tables: at most 16 tables for any number of contexts, by description length.
#pragma once

#include <limits>
#include <utility>

#include "entropy/tables.hpp"

namespace mvcs {

using TableCounts = std::vector<std::uint32_t>;

// Counts of symbols in each of many contexts; most contexts have few symbols.
class Contexts {
  public:
    struct Entry {
        std::uint32_t symbol;
        std::uint32_t count;
    };

    explicit Contexts(std::size_t alphabet) : alphabet_(alphabet) {}

    // Adds the next context; one without symbols may use any table and costs nothing.
    void add(CountsView counts) {
        for (std::uint32_t s = 0; s < counts.size(); ++s) {
            if (counts[s] != 0) entries_.push_back({s, counts[s]});
        }
        ends_.push_back(entries_.size());
    }

    void add(std::span<const Entry> counts) {
        entries_.insert(entries_.end(), counts.begin(), counts.end());
        ends_.push_back(entries_.size());
    }

    std::size_t size() const { return ends_.size(); }
    std::size_t alphabet() const { return alphabet_; }

    std::span<const Entry> operator[](std::size_t context) const {
        const std::size_t start = context == 0 ? 0 : ends_[context - 1];
        return std::span(entries_).subspan(start, ends_[context] - start);
    }

  private:
    std::size_t alphabet_;
    std::vector<Entry> entries_;
    std::vector<std::size_t> ends_;
};

// What the tables of a clustering count, and the table of each context.
struct Clustering {
    std::vector<TableCounts> tables;
    std::vector<std::uint8_t> map;
};

namespace detail {

inline constexpr int lloyd_rounds = 4;
inline constexpr Price switch_price = bits_price(9);    // another table in the map: a short run and a table number
inline constexpr Price seed_price = bits_price(40);     // less is not worth a table
inline constexpr std::uint32_t unseen_weight = 16;      // a symbol new to a table counts 1/16

using Prices = std::array<Price, max_alphabet>;

inline std::uint64_t total(CountsView counts) {
    std::uint64_t sum = 0;
    for (const auto count : counts) sum += count;
    return sum;
}

// Of all symbols by the ideal table for just them.
inline Price entropy(CountsView counts) {
    const std::uint64_t sum = total(counts);
    Price price = static_cast<Price>(sum) * log2_price(sum);
    for (const auto count : counts) price -= count * log2_price(count);
    return price;
}

// What a table takes on the wire; of two symbols it is one probability.
inline Price table_price(CountsView counts) {
    if (counts.size() == 2) return bits_price(16);
    const std::uint64_t sum = total(counts);
    if (sum == 0) return 0;
    Frequencies shares{};
    std::uint64_t given = 0;
    for (std::size_t s = 0; s < counts.size(); ++s) {
        if (counts[s] == 0 || given >= frequency_whole) continue;
        const std::uint64_t share = std::max<std::uint64_t>(counts[s] * std::uint64_t{frequency_whole} / sum, 1);
        shares[s] = static_cast<std::uint16_t>(std::min(share, frequency_whole - given));
        given += shares[s];
    }
    return bits_price(static_cast<std::int64_t>(table_bits(std::span(shares).first(counts.size()))));
}

inline Prices symbol_prices(CountsView counts) {
    Prices prices{};
    const Price whole = log2_price(total(counts) * unseen_weight + counts.size());
    for (std::size_t s = 0; s < counts.size(); ++s) {
        prices[s] = whole - log2_price(std::uint64_t{counts[s]} * unseen_weight + 1);
    }
    return prices;
}

inline Price context_price(std::span<const Contexts::Entry> context, const Prices& prices) {
    Price price = 0;
    for (const auto [symbol, count] : context) price += count * prices[symbol];
    return price;
}

inline Price own_price(std::span<const Contexts::Entry> context) {
    std::uint64_t sum = 0;
    Price price = 0;
    for (const auto [symbol, count] : context) {
        sum += count;
        price -= count * log2_price(count);
    }
    return price + static_cast<Price>(sum) * log2_price(sum);
}

inline void add_counts(TableCounts& to, std::span<const Contexts::Entry> context) {
    for (const auto [symbol, count] : context) to[symbol] += count;
}

inline TableCounts sum_of(const Contexts& contexts) {
    TableCounts sum(contexts.alphabet());
    for (std::size_t i = 0; i < contexts.size(); ++i) add_counts(sum, contexts[i]);
    return sum;
}

// Again and again adds the context that the tables so far serve worst, up to a limit.
inline void add_seeds(const Contexts& contexts, std::size_t limit, std::vector<TableCounts>& tables) {
    std::vector<Price> least(contexts.size(), std::numeric_limits<Price>::max());
    for (std::size_t seen = 0;;) {
        for (; seen < tables.size(); ++seen) {
            const Prices prices = symbol_prices(tables[seen]);
            for (std::size_t i = 0; i < contexts.size(); ++i) {
                least[i] = std::min(least[i], context_price(contexts[i], prices));
            }
        }
        std::size_t worst = 0;
        Price excess = seed_price;
        for (std::size_t i = 0; i < contexts.size(); ++i) {
            const Price over = least[i] - own_price(contexts[i]);
            if (over <= excess) continue;
            excess = over;
            worst = i;
        }
        if (excess == seed_price || tables.size() == limit) return;
        tables.emplace_back(contexts.alphabet());
        add_counts(tables.back(), contexts[worst]);
    }
}

// None for groups of one context.
inline Contexts summed_groups(const Contexts& contexts, std::size_t group) {
    Contexts groups(contexts.alphabet());
    for (std::size_t start = 0; group > 1 && start < contexts.size(); start += group) {
        TableCounts counts(contexts.alphabet());
        for (std::size_t i = start; i < std::min(start + group, contexts.size()); ++i) add_counts(counts, contexts[i]);
        groups.add(CountsView(counts));
    }
    return groups;
}

// All contexts together first, then what groups lack, then what single contexts lack.
inline std::vector<TableCounts> seed_tables(const Contexts& contexts, const Contexts& groups) {
    std::vector<TableCounts> tables{sum_of(contexts)};
    add_seeds(groups, max_tables / 2, tables);
    add_seeds(contexts, max_tables, tables);
    return tables;
}

// The cheapest map by dynamic programming over the contexts in order (Viterbi 1967): a context costs its symbols
// under its table, and another table than the one before costs a run.
inline std::vector<std::uint8_t> cheapest_map(const Contexts& contexts, const std::vector<TableCounts>& tables) {
    std::vector<Prices> prices;
    for (const auto& counts : tables) prices.push_back(symbol_prices(counts));
    std::array<Price, max_tables> best{};
    std::vector<std::array<std::uint8_t, max_tables>> from(contexts.size());
    for (std::size_t i = 0; i < contexts.size(); ++i) {
        const auto end = best.begin() + static_cast<std::ptrdiff_t>(tables.size());
        const auto cheapest = static_cast<std::size_t>(std::min_element(best.begin(), end) - best.begin());
        const Price switched = best[cheapest] + switch_price;
        for (std::size_t t = 0; t < tables.size(); ++t) {
            from[i][t] = static_cast<std::uint8_t>(best[t] <= switched ? t : cheapest);
            best[t] = std::min(best[t], switched) + context_price(contexts[i], prices[t]);
        }
    }
    std::vector<std::uint8_t> map(contexts.size());
    auto table = static_cast<std::uint8_t>(
        std::min_element(best.begin(), best.begin() + static_cast<std::ptrdiff_t>(tables.size())) - best.begin());
    for (std::size_t i = contexts.size(); i-- > 0; table = from[i][table]) map[i] = table;
    return map;
}

inline std::vector<TableCounts> tables_of(const Contexts& contexts, const std::vector<std::uint8_t>& map) {
    std::vector<TableCounts> tables(max_tables, TableCounts(contexts.alphabet()));
    for (std::size_t i = 0; i < contexts.size(); ++i) add_counts(tables[map[i]], contexts[i]);
    std::erase_if(tables, [](const TableCounts& counts) { return total(counts) == 0; });
    return tables;
}

inline TableCounts sum_of(const TableCounts& one, const TableCounts& other) {
    TableCounts sum(one);
    for (std::size_t s = 0; s < sum.size(); ++s) sum[s] += other[s];
    return sum;
}

inline Price table_and_symbols(CountsView counts) { return entropy(counts) + table_price(counts); }

// Merges the two tables that gain most, as long as one gains.
inline void merge_tables(std::vector<TableCounts>& tables) {
    std::vector<Price> alone;
    for (const auto& counts : tables) alone.push_back(table_and_symbols(counts));
    std::vector<std::vector<Price>> together(tables.size(), std::vector<Price>(tables.size()));
    const auto join = [&](std::size_t a, std::size_t b) {
        together[a][b] = together[b][a] = table_and_symbols(sum_of(tables[a], tables[b]));
    };
    for (std::size_t a = 0; a < tables.size(); ++a) {
        for (std::size_t b = a + 1; b < tables.size(); ++b) join(a, b);
    }
    while (tables.size() > 1) {
        Price gain = -switch_price;
        std::size_t left = 0;
        std::size_t right = 0;
        for (std::size_t a = 0; a < tables.size(); ++a) {
            for (std::size_t b = a + 1; b < tables.size(); ++b) {
                const Price gained = alone[a] + alone[b] - together[a][b];
                if (gained < gain) continue;
                gain = gained;
                left = a;
                right = b;
            }
        }
        if (right == 0) return;
        const auto at = static_cast<std::ptrdiff_t>(right);
        tables[left] = sum_of(tables[left], tables[right]);
        alone[left] = together[left][right];
        tables.erase(tables.begin() + at);
        alone.erase(alone.begin() + at);
        together.erase(together.begin() + at);
        for (auto& row : together) row.erase(row.begin() + at);
        for (std::size_t other = 0; other < tables.size(); ++other) {
            if (other != left) join(left, other);
        }
    }
}

}  // namespace detail

// Takes out tables that no context uses.
inline void drop_unused(Clustering& clustering) {
    std::array<std::uint8_t, max_tables> renumbered{};
    for (const auto table : clustering.map) renumbered[table] = 1;
    std::vector<TableCounts> used;
    for (std::size_t t = 0; t < clustering.tables.size(); ++t) {
        const bool kept = renumbered[t] != 0;
        renumbered[t] = static_cast<std::uint8_t>(used.size());
        if (kept) used.push_back(std::move(clustering.tables[t]));
    }
    clustering.tables = std::move(used);
    for (auto& table : clustering.map) table = renumbered[table];
}

namespace detail {

inline Contexts without_empty(const Contexts& contexts) {
    Contexts used(contexts.alphabet());
    for (std::size_t i = 0; i < contexts.size(); ++i) {
        if (!contexts[i].empty()) used.add(contexts[i]);
    }
    return used;
}

// A map of all contexts: those without symbols use the table of the next one that has some, or of the last.
inline std::vector<std::uint8_t> with_empty(const Contexts& contexts, const std::vector<std::uint8_t>& used) {
    std::vector<std::uint8_t> map;
    std::size_t next = 0;
    for (std::size_t i = 0; i < contexts.size(); ++i) {
        map.push_back(used.empty() ? 0 : used[std::min(next, used.size() - 1)]);
        next += !contexts[i].empty();
    }
    return map;
}

// Tables are what their contexts sum up to; those that none uses are left out.
inline Clustering clustering_of(const Contexts& contexts, std::vector<std::uint8_t> map, std::size_t tables) {
    Clustering result{std::vector<TableCounts>(tables, TableCounts(contexts.alphabet())), std::move(map)};
    for (std::size_t i = 0; i < contexts.size(); ++i) add_counts(result.tables[result.map[i]], contexts[i]);
    drop_unused(result);
    return result;
}

}  // namespace detail

// Groups contexts so that the symbols, the tables and the map are short: farthest-first seeds, a few rounds of Lloyd's
// algorithm (1982) with description length as distance, then merging (Rissanen 1978). Every `group` contexts in a row
// are likely to be alike. No symbols are no tables.
inline Clustering cluster(const Contexts& contexts, std::size_t group = 1) {
    require(contexts.alphabet() >= 1 && contexts.alphabet() <= max_alphabet, "an alphabet is not in 1 .. 256");
    const Contexts used = detail::without_empty(contexts);
    auto tables = detail::seed_tables(used, detail::summed_groups(contexts, group));
    for (int round = 0; round < detail::lloyd_rounds && tables.size() > 1; ++round) {
        tables = detail::tables_of(used, detail::cheapest_map(used, tables));
        if (round + 2 >= detail::lloyd_rounds) detail::merge_tables(tables);
    }
    Clustering result = detail::clustering_of(used, detail::cheapest_map(used, tables), tables.size());
    result.map = detail::with_empty(contexts, result.map);
    return result;
}

}  // namespace mvcs
