// Models of contexts that were clustered by other counts than those that their tables are fitted to.
#pragma once

#include "cluster.hpp"

namespace mvcs {

// Fits a table to each cluster's counts. With an escape, a symbol that its table lacks goes by it.
inline Model fit_tables(Clustering clustering, std::optional<Escape> escape = std::nullopt) {
    Model model;
    model.map = std::move(clustering.map);
    Price price = 0;
    for (auto& counts : clustering.tables) {
        const Frequencies fitted = fit_frequencies(counts, escape);
        for (std::size_t s = 0; escape && s < counts.size(); ++s) {
            if (fitted[s] == 0 && counts[s] != 0) counts[escape->symbol] += std::exchange(counts[s], 0U);
        }
        price += detail::coded_price(counts, fitted);
        model.tables.push_back(fitted);
    }
    model.bits = whole_bits(price);
    return model;
}

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

}  // namespace mvcs
