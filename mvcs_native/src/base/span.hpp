// Names shared by the kernels: bounded views of raw buffers and the one error they raise.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>

namespace mvcs {

static_assert(std::endian::native == std::endian::little,
              "mvcs works on little-endian machines only: kernels read numbers as they lie in memory");

using Bytes = std::span<const std::uint8_t>;
using MutableBytes = std::span<std::uint8_t>;

// Arguments that break a kernel's contract and payloads that no encoder wrote. Becomes ValueError.
using Invalid = std::invalid_argument;

inline void require(bool holds, const char* otherwise) {
    if (!holds) throw Invalid(otherwise);
}

}  // namespace mvcs
