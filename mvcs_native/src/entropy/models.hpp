// Models: frequency tables and which context uses which, fitted to counts and as bits.
#pragma once

#include "entropy/cluster.hpp"

namespace mvcs {

// Tables and their map, as both sides know them, and how long the symbols will be.
struct Model {
    Tables tables;
    std::vector<std::uint8_t> map;  // the table of each context
    std::size_t bits = 0;           // of the symbols by these tables, without what escapes cost elsewhere

    bool has(std::uint8_t table, std::uint8_t symbol) const { return tables[table][symbol] != 0; }

    // The only symbol of each table, where no table has another: then symbols need no stream.
    std::optional<std::vector<std::uint8_t>> certain() const {
        std::vector<std::uint8_t> only;
        for (const auto& frequencies : tables) {
            const auto found = std::find(frequencies.begin(), frequencies.end(), frequency_whole);
            if (found == frequencies.end()) return std::nullopt;
            only.push_back(static_cast<std::uint8_t>(found - frequencies.begin()));
        }
        return only;
    }
};

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

// The same for contexts, of which one at least has symbols.
inline Model fit_model(const Contexts& contexts, std::optional<Escape> escape = std::nullopt, std::size_t group = 1) {
    return fit_tables(cluster(contexts, group), escape);
}

// One bit stream: the number of tables less one in 4 bits, the tables, the map.
inline void put_model(Payload& out, const Model& model, std::size_t alphabet) {
    BitWriter bits(out);
    bits.put(static_cast<std::uint32_t>(model.tables.size() - 1), 4);
    for (const auto& frequencies : model.tables) put_table(bits, std::span(frequencies).first(alphabet));
    put_map(bits, model.map, model.tables.size());
    bits.finish();
}

inline Model take_model(ByteReader& payload, std::size_t alphabet, std::size_t contexts) {
    BitReader bits(payload.rest());
    bits.refill();
    const std::size_t tables = bits.take(4) + std::size_t{1};
    Model model;
    for (std::size_t t = 0; t < tables; ++t) model.tables.push_back(take_table(bits, alphabet));
    model.map.resize(contexts);
    take_map(bits, model.map, tables);
    payload.take(bits.used_bytes());
    return model;
}

}  // namespace mvcs
