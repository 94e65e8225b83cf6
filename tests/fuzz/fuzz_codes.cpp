// libFuzzer target: hostile payloads never crash the decoders, and whatever is encoded comes back.
//
//     clang++ -std=c++20 -O1 -g -fsanitize=fuzzer,address,undefined -I mvcs_native/src tests/fuzz/fuzz_codes.cpp
//
// With -DSTANDALONE and without `fuzzer` it needs no libFuzzer; see standalone.hpp.
#include <cstdlib>
#include <vector>

#include "groups/groups.hpp"

namespace {

using Buffer = mvcs::Payload;

void decode_hostile(mvcs::Bytes payload, mvcs::Bytes base, std::size_t levels) {
    Buffer out(base.size());
    try {
        mvcs::decode_codes(payload, levels, out);
    } catch (const mvcs::Invalid&) {
    }
    try {
        mvcs::decode_delta(payload, base, levels, out);
    } catch (const mvcs::Invalid&) {
    }
}

void round_trip(mvcs::Bytes codes, mvcs::Bytes base, std::size_t levels) {
    Buffer out(codes.size());
    mvcs::decode_codes(mvcs::encode_codes(codes, levels), levels, out);
    if (!std::equal(out.begin(), out.end(), codes.begin())) std::abort();
    mvcs::decode_delta(mvcs::encode_delta(codes, base, levels), base, levels, out);
    if (!std::equal(out.begin(), out.end(), codes.begin())) std::abort();
}

}  // namespace

// Input: levels - 1, the count of codes in two bytes, then a payload.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 3) return 0;
    const std::size_t levels = data[0] + std::size_t{1};
    const std::size_t count = (data[1] | std::size_t{data[2]} << 8) % 4096;
    const mvcs::Bytes payload(data + 3, size - 3);
    Buffer base(count);
    for (std::size_t i = 0; i < count; ++i) base[i] = static_cast<std::uint8_t>((i * i >> 4) % levels);
    decode_hostile(payload, base, levels);

    Buffer codes(payload.begin(), payload.end());
    for (auto& code : codes) code = static_cast<std::uint8_t>(code % levels);
    base.resize(codes.size());
    round_trip(codes, base, levels);
    return 0;
}

#ifdef STANDALONE
#include <random>

// Every round encodes codes with runs, damages a few bits or the length of the payload, and decodes it.
void damage(long rounds) {
    std::mt19937 random(1);
    const auto below = [&](std::size_t limit) { return random() % limit; };
    for (long round = 0; round < rounds; ++round) {
        const std::size_t levels = 1 + below(round % 2 ? 256 : 6);
        Buffer codes(below(2000));
        for (auto& code : codes) code = static_cast<std::uint8_t>(below(8) ? below(2) % levels : below(levels));
        Buffer payload = mvcs::encode_codes(codes, levels);
        for (std::size_t hits = below(4); hits > 0 && !payload.empty(); --hits) {
            payload[below(payload.size())] ^= static_cast<std::uint8_t>(1U << below(8));
        }
        if (below(4) == 0 && !payload.empty()) payload.resize(below(payload.size() + 3));
        payload.insert(payload.begin(), {static_cast<std::uint8_t>(levels - 1), static_cast<std::uint8_t>(codes.size()),
                                         static_cast<std::uint8_t>(codes.size() >> 8)});
        LLVMFuzzerTestOneInput(payload.data(), payload.size());
    }
}

#include "standalone.hpp"
#endif
