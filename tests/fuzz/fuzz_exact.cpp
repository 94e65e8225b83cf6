// libFuzzer target: hostile payloads of the exact coders never crash, every level decodes them alike, and whatever is
// encoded comes back.
//
//     clang++ -std=c++20 -O1 -g -fsanitize=fuzzer,address,undefined -I mvcs_native/src tests/fuzz/fuzz_exact.cpp
//
// With -DSTANDALONE and without `fuzzer` it needs no libFuzzer; see standalone.hpp.
#include <cstdlib>
#include <vector>

#include "exact/planes.hpp"
#include "exact/residual.hpp"

namespace {

using Buffer = mvcs::Payload;

// The first byte of an input.
struct Kind {
    std::size_t width;  // bits 0 and 1: its logarithm
    bool floating;      // bit 2
    bool near_base;     // bit 3
    bool smooth;        // bit 4: a base whose words are alike

    explicit Kind(std::uint8_t byte)
        : width(std::size_t{1} << byte % 4),
          floating((byte & 4) != 0),
          near_base((byte & 8) != 0),
          smooth((byte & 16) != 0) {}
};

Buffer base_of(const Kind& kind, std::size_t size) {
    Buffer base(size);
    for (std::size_t i = 0; i < size; ++i) {
        const std::size_t word = i / kind.width;
        const bool top = i % kind.width + 1 == kind.width;
        base[i] = static_cast<std::uint8_t>(kind.smooth && top ? 60 + word % 4 : word * word * 167 >> 4 ^ i * 13);
    }
    return base;
}

Buffer encode(const Kind& kind, mvcs::Bytes content, mvcs::Bytes base) {
    if (!kind.near_base) return mvcs::encode_planes(content, kind.width, kind.floating);
    return mvcs::encode_residual(content, base, kind.width, kind.floating);
}

// What is decoded, or nothing where the payload is refused.
Buffer decode(const Kind& kind, mvcs::Bytes payload, mvcs::Bytes base) {
    Buffer out(base.size());
    try {
        if (kind.near_base) {
            mvcs::decode_residual(payload, base, kind.width, kind.floating, out);
        } else {
            mvcs::decode_planes(payload, kind.width, kind.floating, out);
        }
    } catch (const mvcs::Invalid&) {
        return {};
    }
    return out;
}

Buffer decode_at_all_levels(const Kind& kind, mvcs::Bytes payload, mvcs::Bytes base) {
    mvcs::use_level("portable");
    const Buffer expected = decode(kind, payload, base);
    for (int level = 1; level <= static_cast<int>(mvcs::best_level()); ++level) {
        mvcs::use_level(mvcs::level_names[static_cast<std::size_t>(level)]);
        if (decode(kind, payload, base) != expected) std::abort();
    }
    return expected;
}

// Words near the base where the bytes are small, anything where they are not.
Buffer content_of(const Kind& kind, mvcs::Bytes bytes, const Buffer& base) {
    Buffer content(base);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        if (bytes[i] < 128 && i % kind.width > 0) continue;
        content[i] = static_cast<std::uint8_t>(base[i] + bytes[i]);
    }
    return content;
}

void round_trip(const Kind& kind, mvcs::Bytes bytes) {
    const Buffer base = base_of(kind, bytes.size() / kind.width * kind.width);
    const Buffer content = content_of(kind, bytes.first(base.size()), base);
    if (decode_at_all_levels(kind, encode(kind, content, base), base) != content) std::abort();
}

}  // namespace

// Input: the kind, the count of words in two bytes, then a payload.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 3) return 0;
    const Kind kind(data[0]);
    const std::size_t count = (data[1] | std::size_t{data[2]} << 8) % 8192;
    const mvcs::Bytes payload(data + 3, size - 3);
    decode_at_all_levels(kind, payload, base_of(kind, count * kind.width));
    round_trip(kind, payload);
    return 0;
}

#ifdef STANDALONE
#include <random>

// Every round encodes words, damages a few bits or the length of the payload, and decodes it.
void damage(long rounds) {
    std::mt19937 random(1);
    const auto below = [&](std::size_t limit) { return random() % limit; };
    for (long round = 0; round < rounds; ++round) {
        const auto byte = static_cast<std::uint8_t>(below(32));
        const Kind kind(byte);
        const std::size_t count = below(round % 16 ? 300 : 6000);
        const Buffer base = base_of(kind, count * kind.width);
        Buffer bytes(base.size());
        for (auto& each : bytes) each = static_cast<std::uint8_t>(below(8) ? below(3) : below(256));
        Buffer payload = encode(kind, content_of(kind, bytes, base), base);
        for (std::size_t hits = below(4); hits > 0 && !payload.empty(); --hits) {
            payload[below(payload.size())] ^= static_cast<std::uint8_t>(1U << below(8));
        }
        if (below(4) == 0 && !payload.empty()) payload.resize(below(payload.size() + 3));
        payload.insert(payload.begin(), {byte, static_cast<std::uint8_t>(count), static_cast<std::uint8_t>(count >> 8)});
        LLVMFuzzerTestOneInput(payload.data(), payload.size());
    }
}

#include "standalone.hpp"
#endif
