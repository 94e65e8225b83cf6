// libFuzzer target: hostile tables, maps and streams never crash, and whatever is encoded comes back.
//
//     clang++ -std=c++20 -O1 -g -fsanitize=fuzzer,address,undefined -I mvcs_native/src tests/fuzz/fuzz_rans.cpp
//
// With -DSTANDALONE and without `fuzzer` it needs no libFuzzer; see standalone.hpp.
#include <cstdlib>
#include <vector>

#include "entropy/gaps.hpp"

namespace {

using Buffer = mvcs::Payload;

constexpr std::size_t contexts = 24;

// Contexts as a coder has them: neighbours are alike.
Buffer context_of(std::size_t count) {
    Buffer of(count);
    for (std::size_t i = 0; i < count; ++i) of[i] = static_cast<std::uint8_t>((i * i >> 6) % contexts);
    return of;
}

Buffer tables_of(const Buffer& context, mvcs::Bytes map) {
    Buffer tables;
    for (const auto c : context) tables.push_back(map[c]);
    return tables;
}

Buffer encode_symbols(mvcs::Bytes symbols, std::size_t alphabet, bool escapes) {
    const auto context = context_of(symbols.size());
    std::vector<mvcs::TableCounts> counts(contexts, mvcs::TableCounts(alphabet));
    for (std::size_t i = 0; i < symbols.size(); ++i) ++counts[context[i]][symbols[i]];
    mvcs::Contexts all(alphabet);
    for (const auto& each : counts) all.add(mvcs::CountsView(each));
    const mvcs::Escape escape{static_cast<std::uint8_t>(alphabet - 1), 8};
    const auto model = mvcs::fit_model(all, escapes ? std::optional(escape) : std::nullopt);
    const auto tables = tables_of(context, model.map);
    Buffer routed(symbols.begin(), symbols.end());
    for (std::size_t i = 0; i < routed.size(); ++i) {
        if (!model.has(tables[i], routed[i])) routed[i] = escape.symbol;
    }
    Buffer out;
    mvcs::put_model(out, model, alphabet);
    mvcs::put_symbols(out, tables, routed, model);
    return out;
}

Buffer decode_symbols(mvcs::Bytes payload, std::size_t alphabet, std::size_t count) {
    mvcs::ByteReader reader(payload);
    const auto model = mvcs::take_model(reader, alphabet, contexts);
    Buffer out(count);
    mvcs::take_symbols(reader, tables_of(context_of(count), model.map), model, out);
    mvcs::require(reader.empty(), "bytes to spare");
    return out;
}

bool any_odd(mvcs::Bytes symbols) {
    return std::any_of(symbols.begin(), symbols.end(), [](std::uint8_t symbol) { return (symbol & 1) != 0; });
}

// The lowest bit of each symbol, of which one at least is set.
Buffer encode_gaps(mvcs::Bytes symbols) {
    const auto context = context_of(symbols.size());
    std::vector<mvcs::TableCounts> counts(contexts, mvcs::TableCounts(2));
    std::vector<std::uint64_t> flags(mvcs::flag_words(symbols.size()));
    for (std::size_t i = 0; i < symbols.size(); ++i) {
        ++counts[context[i]][symbols[i] & 1];
        flags[i / 64] |= std::uint64_t{symbols[i] & 1U} << i % 64;
    }
    mvcs::Contexts all(2);
    for (const auto& each : counts) all.add(mvcs::CountsView(each));
    const auto model = mvcs::fit_gaps(all, 1);
    mvcs::GapWriter writer(model.classes);
    writer.add(tables_of(context, model.map), flags);
    Buffer out;
    mvcs::put_gap_model(out, model);
    writer.finish(out);
    return out;
}

std::vector<std::uint64_t> decode_gaps(mvcs::Bytes payload, std::size_t count) {
    mvcs::ByteReader reader(payload);
    const auto model = mvcs::take_gap_model(reader, contexts);
    mvcs::GapReader gaps(reader, model.classes, count);
    gaps.start();
    std::vector<std::uint64_t> out(mvcs::flag_words(count));
    gaps.take(tables_of(context_of(count), model.map), out);
    gaps.finish();
    mvcs::require(reader.empty(), "bytes to spare");
    return out;
}

void decode_hostile(mvcs::Bytes payload, std::size_t alphabet, std::size_t count) {
    try {
        decode_symbols(payload, alphabet, count);
    } catch (const mvcs::Invalid&) {
    }
    try {
        decode_gaps(payload, count);
    } catch (const mvcs::Invalid&) {
    }
}

void round_trip(const Buffer& symbols, std::size_t alphabet) {
    if (symbols.empty()) return;
    if (decode_symbols(encode_symbols(symbols, alphabet, false), alphabet, symbols.size()) != symbols) std::abort();
    const auto routed = decode_symbols(encode_symbols(symbols, alphabet, true), alphabet, symbols.size());
    for (std::size_t i = 0; i < symbols.size(); ++i) {
        if (routed[i] != symbols[i] && routed[i] != alphabet - 1) std::abort();
    }
    if (!any_odd(symbols)) return;
    const auto flags = decode_gaps(encode_gaps(symbols), symbols.size());
    for (std::size_t i = 0; i < symbols.size(); ++i) {
        if ((flags[i / 64] >> i % 64 & 1) != (symbols[i] & 1)) std::abort();
    }
}

}  // namespace

// Input: the alphabet less one, the count of symbols in two bytes, then a payload.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 3) return 0;
    const std::size_t alphabet = data[0] + std::size_t{1};
    const std::size_t count = (data[1] | std::size_t{data[2]} << 8) % 4096;
    const mvcs::Bytes payload(data + 3, size - 3);
    decode_hostile(payload, alphabet, count);

    Buffer symbols(payload.begin(), payload.end());
    for (auto& symbol : symbols) symbol = static_cast<std::uint8_t>(symbol % alphabet);
    round_trip(symbols, alphabet);
    return 0;
}

#ifdef STANDALONE
#include <random>

// Every round encodes skewed symbols, damages a few bits or the length of the payload, and decodes it.
void damage(long rounds) {
    std::mt19937 random(1);
    const auto below = [&](std::size_t limit) { return random() % limit; };
    for (long round = 0; round < rounds; ++round) {
        const std::size_t alphabet = 1 + below(round % 2 ? 256 : 6);
        Buffer symbols(1 + below(round % 50 ? 2000 : 100'000));
        for (auto& symbol : symbols) symbol = static_cast<std::uint8_t>(below(8) ? below(2) % alphabet : below(alphabet));
        round_trip(symbols, alphabet);
        Buffer payload = round % 3 || !any_odd(symbols) ? encode_symbols(symbols, alphabet, round % 2 != 0) : encode_gaps(symbols);
        for (std::size_t hits = below(4); hits > 0; --hits) {
            payload[below(payload.size())] ^= static_cast<std::uint8_t>(1U << below(8));
        }
        if (below(4) == 0) payload.resize(below(payload.size() + 3));
        decode_hostile(payload, alphabet, symbols.size());
    }
}

#include "standalone.hpp"
#endif
