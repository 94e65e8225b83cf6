// RANS_PLANES: a chunk alone, exact. Planes of bytes, each raw, constant, or by rANS with a table for each block of it.
#pragma once

#include <bit>
#include <optional>

#include "base/histogram.hpp"
#include "base/words.hpp"
#include "entropy/models.hpp"
#include "entropy/rans.hpp"
#include "exact/bytesplit.hpp"

namespace mvcs {

enum class PlaneMode : std::uint8_t { raw = 0, constant = 1, coded = 2 };

namespace detail {

inline constexpr unsigned block_power = 8;
inline constexpr std::size_t block_length = std::size_t{1} << block_power;
inline constexpr std::size_t most_samples = 512;  // blocks that tables are sought in

inline constexpr unsigned price_unit = 16;   // of the prices below, in a bit
inline constexpr unsigned longest_price = 255;  // so that a block's sum stays below 2^16
inline constexpr unsigned run_price = 6 * price_unit;  // what another table than the block before costs

// What a symbol costs by each table: four prices of 16 bits in a word, so that one addition serves all of them.
using PriceRow = std::array<std::uint64_t, max_tables / 4>;
using PriceRows = std::array<PriceRow, max_alphabet>;

inline PriceRows block_prices(const std::vector<TableCounts>& tables) {
    PriceRows rows{};
    for (std::size_t t = 0; t < tables.size(); ++t) {
        const Prices exact = symbol_prices(tables[t]);
        for (std::size_t s = 0; s < max_alphabet; ++s) {
            const auto price = std::min<Price>(exact[s] * price_unit >> price_digits, longest_price);
            rows[s][t / 4] |= static_cast<std::uint64_t>(price) << t % 4 * 16;
        }
    }
    return rows;
}

MVCS_INLINE inline PriceRow sum_prices(const std::uint8_t* symbols, std::size_t count, const PriceRows& rows) {
    PriceRow sums{};
    for (std::size_t i = 0; i < count; ++i) {
        const PriceRow& row = rows[symbols[i]];
        for (std::size_t w = 0; w < sums.size(); ++w) sums[w] += row[w];
    }
    return sums;
}

// The table of each block: the cheapest, unless the one before costs less than saying so.
inline std::vector<std::uint8_t> map_blocks(Bytes plane, const std::vector<TableCounts>& tables) {
    const PriceRows rows = block_prices(tables);
    std::vector<std::uint8_t> map((plane.size() + block_length - 1) / block_length);
    std::vector<PriceRow> sums(map.size());
    at_active_level([&]() MVCS_INLINE {
        for (std::size_t b = 0; b < sums.size(); ++b) {
            const std::size_t at = b << block_power;
            sums[b] = sum_prices(plane.data() + at, std::min(plane.size() - at, block_length), rows);
        }
    });
    std::uint8_t last = 0;
    for (std::size_t b = 0; b < map.size(); ++b) {
        const auto price = [&](std::uint8_t t) { return sums[b][t / 4] >> t % 4 * 16 & 0xFFFF; };
        std::uint8_t best = 0;
        for (std::uint8_t t = 1; t < tables.size(); ++t) best = price(t) < price(best) ? t : best;
        if (b == 0 || price(best) + run_price < price(last)) last = best;
        map[b] = last;
    }
    return map;
}

inline Bytes block(Bytes plane, std::size_t number, std::size_t length) {
    return plane.subspan(number * length, std::min(length, plane.size() - number * length));
}

// Every so manieth block, in their order.
template <class Each>
void each_sample(Bytes plane, std::size_t length, std::size_t most, Each each) {
    const std::size_t blocks = (plane.size() + length - 1) / length;
    const std::size_t samples = std::min(blocks, most);
    for (std::size_t i = 0; i < samples; ++i) each(block(plane, i * blocks / samples, length));
}

inline TableCounts byte_counts(Bytes symbols) {
    Histogram histogram;
    histogram.add(symbols);
    const ByteCounts counts = histogram.counts();
    return {counts.begin(), counts.end()};
}

// Whether long blocks by a table of each one's own would save a 64th, the tables' share in that being taken off.
inline bool looks_like_noise(Bytes plane) {
    Price coded = 0;
    std::size_t symbols = 0;
    each_sample(plane, std::size_t{1} << 12, 16, [&](Bytes sample) {
        const TableCounts counts = byte_counts(sample);
        std::size_t used = 0;
        for (const auto count : counts) used += count != 0;
        coded += entropy(counts) + bits_price(static_cast<std::int64_t>(used * 3 / 4));
        symbols += sample.size();
    });
    return whole_bits(coded) > symbols * 8 - symbols / 8;
}

inline Model plane_model(Bytes plane) {
    Contexts samples(max_alphabet);
    each_sample(plane, block_length, most_samples, [&](Bytes sample) { samples.add(byte_counts(sample)); });
    Clustering clustering = cluster(samples);
    clustering.map = map_blocks(plane, clustering.tables);
    for (auto& counts : clustering.tables) std::fill(counts.begin(), counts.end(), 0U);
    for (std::size_t b = 0; b < clustering.map.size(); ++b) {
        auto& counts = clustering.tables[clustering.map[b]];
        for (const auto symbol : block(plane, b, block_length)) ++counts[symbol];
    }
    drop_unused(clustering);
    return fit_tables(std::move(clustering));
}

inline void put_raw(Payload& out, Bytes plane) {
    out.push_back(static_cast<std::uint8_t>(PlaneMode::raw));
    out.insert(out.end(), plane.begin(), plane.end());
}

inline Payload coded_plane(Bytes plane) {
    const Model model = plane_model(plane);
    Payload out;
    if (model.bits / 8 >= plane.size() - plane.size() / 64) return out;
    put_model(out, model, max_alphabet);
    put_symbol_blocks(out, plane, model, [&](std::size_t start, std::size_t size, std::uint8_t* tables) {
        for (std::size_t i = 0; i < size; i += block_length) {
            std::memset(tables + i, model.map[(start + i) >> block_power], std::min(block_length, size - i));
        }
    });
    return out;
}

// Raw unless a 64th is gained.
inline void put_plane(Payload& out, Bytes plane) {
    if (std::all_of(plane.begin(), plane.end(), [&](std::uint8_t byte) { return byte == plane[0]; })) {
        out.push_back(static_cast<std::uint8_t>(PlaneMode::constant));
        out.push_back(plane[0]);
        return;
    }
    if (looks_like_noise(plane)) return put_raw(out, plane);
    const Payload coded = coded_plane(plane);
    if (coded.empty() || coded.size() + varint_size(coded.size()) >= plane.size()) return put_raw(out, plane);
    out.push_back(static_cast<std::uint8_t>(PlaneMode::coded));
    put_sized(out, coded);
}

// The tables of a coded plane, and where its symbols come from.
class CodedPlane {
  public:
    CodedPlane(Bytes body, std::size_t count)
        : body_(body),
          model_(take_model(body_, max_alphabet, ((count - 1) >> block_power) + 1)),
          symbols_(body_, model_.tables) {}

    void take(std::size_t at, MutableBytes out) {
        std::array<std::uint8_t, slice_words> tables;
        for (std::size_t i = 0; i < out.size(); i += block_length) {  // a slice is several blocks
            std::memset(&tables[i], model_.map[(at + i) >> block_power], std::min(block_length, out.size() - i));
        }
        symbols_.take(Bytes(tables).first(out.size()), out);
    }

    void finish() {
        symbols_.finish();
        require(body_.empty(), "a plane has bytes to spare");
    }

  private:
    ByteReader body_;
    Model model_;
    SymbolDecoder symbols_;
};

// A plane in any mode, read a slice at a time.
class PlaneReader {
  public:
    PlaneReader(ByteReader& payload, std::size_t count) {
        switch (static_cast<PlaneMode>(payload.byte())) {
            case PlaneMode::raw:
                raw_ = payload.take(count);
                return;
            case PlaneMode::constant:
                slice_.fill(payload.byte());
                return;
            case PlaneMode::coded:
                coded_ = std::make_unique<CodedPlane>(payload.take(payload.varint()), count);
                return;
        }
        throw Invalid("a plane has an unknown mode");
    }

    // Bytes that stay until the next call.
    const std::uint8_t* take(std::size_t at, std::size_t count) {
        if (!raw_.empty()) return raw_.data() + at;
        if (coded_) coded_->take(at, MutableBytes(slice_).first(count));
        return slice_.data();
    }

    void finish() {
        if (coded_) coded_->finish();
    }

  private:
    Bytes raw_;
    std::array<std::uint8_t, slice_words> slice_;
    std::unique_ptr<CodedPlane> coded_;
};

template <class Stored>
void take_planes(Bytes payload, bool floating, MutableBytes out) {
    constexpr std::size_t width = sizeof(Stored);
    const std::size_t count = out.size() / width;
    ByteReader reader(payload);
    std::vector<PlaneReader> planes;
    for (std::size_t p = 0; p < width && count > 0; ++p) planes.emplace_back(reader, count);
    require(reader.empty(), "the payload has bytes to spare");
    for (std::size_t at = 0; at < count; at += slice_words) {
        const std::size_t size = std::min(slice_words, count - at);
        std::array<const std::uint8_t*, width> parts;
        for (std::size_t p = 0; p < width; ++p) parts[p] = planes[p].take(at, size);
        merge_planes<Stored>(parts, size, floating, out.data() + at * width);
    }
    for (auto& plane : planes) plane.finish();
}

}  // namespace detail

// Words of `width` bytes alone. No words are no bytes.
inline Payload encode_planes(Bytes content, std::size_t width, bool floating) {
    Payload out;
    detail::with_stored(width, [&]<class Stored>(Stored) {
        detail::check_words(content.size(), width);
        const std::size_t count = content.size() / width;
        out.reserve(content.size() + 64);
        Scratch<std::uint8_t> planes(content.size());
        detail::split_planes<Stored>(content, floating, planes.data());
        for (std::size_t p = 0; p < width && count > 0; ++p) detail::put_plane(out, {&planes[p * count], count});
    });
    return out;
}

// On an error `out` holds bytes of no meaning.
inline void decode_planes(Bytes payload, std::size_t width, bool floating, MutableBytes out) {
    detail::with_stored(width, [&]<class Stored>(Stored) {
        detail::check_words(out.size(), width);
        detail::take_planes<Stored>(payload, floating, out);
    });
}

}  // namespace mvcs
