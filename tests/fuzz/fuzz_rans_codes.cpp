// libFuzzer target: hostile payloads of codes never crash the decoders, and whatever is encoded comes back.
//
//     clang++ -std=c++20 -O1 -g -fsanitize=fuzzer,address,undefined -I mvcs_native/src tests/fuzz/fuzz_rans_codes.cpp
//
// With -DSTANDALONE and without `fuzzer` it needs no libFuzzer; see standalone.hpp.
#include <cstdlib>
#include <vector>

#include "moves/rans_moves.hpp"

namespace {

using Buffer = mvcs::Payload;
using Counts = std::vector<std::uint64_t>;

// A few members that hold so many codes in all; some are empty.
Counts members_of(std::size_t codes, std::size_t kind) {
    if (kind == 0) return {codes};
    if (kind == 1) return {codes / 3, 0, codes - codes / 3};
    Counts counts(9, codes / 10);
    counts.push_back(codes - 9 * (codes / 10));
    return counts;
}

Buffer base_of(std::size_t codes, std::size_t width) {
    Buffer base(codes * width);
    for (std::size_t i = 0; i < base.size(); i += width) {
        base[i] = static_cast<std::uint8_t>((i * i >> 5) % 7);
        if (width == 2 && i % 3 == 0) base[i] = static_cast<std::uint8_t>(-base[i]), base[i + 1] = base[i] ? 255 : 0;
    }
    return base;
}

void decode_hostile(mvcs::Bytes payload, mvcs::Bytes base, std::size_t width, const mvcs::Members& members) {
    Buffer out(base.size());
    try {
        mvcs::decode_rans_codes(payload, width, members, out);
    } catch (const mvcs::Invalid&) {
    }
    try {
        mvcs::decode_rans_moves(payload, base, width, members, out);
        out.assign(base.begin(), base.end());
        mvcs::decode_rans_moves(payload, out, width, members, out);
    } catch (const mvcs::Invalid&) {
    }
}

void round_trip(mvcs::Bytes codes, mvcs::Bytes base, std::size_t width, const mvcs::Members& members,
                std::span<const mvcs::Steps> steps) {
    Buffer out(codes.size());
    mvcs::decode_rans_codes(mvcs::encode_rans_codes(codes, width, members), width, members, out);
    if (!std::equal(out.begin(), out.end(), codes.begin())) std::abort();
    mvcs::decode_rans_moves(mvcs::encode_rans_moves(codes, base, width, members, steps), base, width, members, out);
    if (!std::equal(out.begin(), out.end(), codes.begin())) std::abort();
}

}  // namespace

// Input: width and kind of members and level, the count of codes in two bytes, two step bytes, then a payload.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 5) return 0;
    const std::size_t width = 1 + data[0] % 2;
    const std::size_t kind = data[0] / 2 % 3;
    const std::size_t level = data[0] / 8 % 3;
    if (static_cast<mvcs::Level>(level) <= mvcs::best_level()) mvcs::use_level(mvcs::level_names[level]);
    const std::size_t count = (data[1] | std::size_t{data[2]} << 8) % 8192;
    const mvcs::Bytes payload(data + 5, size - 5);
    decode_hostile(payload, base_of(count, width), width, mvcs::Members(members_of(count, kind)));

    const mvcs::Bytes codes = payload.first(payload.size() / width * width);
    const mvcs::Members members(members_of(codes.size() / width, kind));
    std::vector<mvcs::Steps> steps;
    if (width == 2) steps.assign(members.size(), {data[3], data[4]});
    round_trip(codes, base_of(codes.size() / width, width), width, members, steps);
    return 0;
}

#ifdef STANDALONE
#include <random>

// Every round moves some codes of a base, encodes them, damages a few bits or the length of the payload, and decodes it.
void damage(long rounds) {
    std::mt19937 random(1);
    const auto below = [&](std::size_t limit) { return random() % limit; };
    for (long round = 0; round < rounds; ++round) {
        const std::size_t width = 1 + below(2);
        const std::size_t count = below(round % 40 ? 3000 : 60'000);
        const mvcs::Members members(members_of(count, below(3)));
        const Buffer base = base_of(count, width);
        Buffer codes = base;
        const std::size_t rarity = std::size_t{1} << below(10);
        for (std::size_t i = 0; i < codes.size(); i += width) {
            if (below(rarity) == 0) codes[i] = static_cast<std::uint8_t>(codes[i] + (below(30) ? below(5) : below(256)));
        }
        std::vector<mvcs::Steps> steps;
        if (width == 2 && below(2) == 0) steps.assign(members.size(), {240, static_cast<std::uint8_t>(238 + below(5))});
        round_trip(codes, base, width, members, steps);
        Buffer payload = below(3) ? mvcs::encode_rans_moves(codes, base, width, members, steps)
                                  : mvcs::encode_rans_codes(codes, width, members);
        for (std::size_t hits = below(4); hits > 0 && !payload.empty(); --hits) {
            payload[below(payload.size())] ^= static_cast<std::uint8_t>(1U << below(8));
        }
        if (below(4) == 0 && !payload.empty()) payload.resize(below(payload.size() + 3));
        decode_hostile(payload, base, width, members);
    }
}

#include "standalone.hpp"
#endif
