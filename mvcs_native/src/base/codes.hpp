// Codes of two bytes: the largest, and the one that marks an exception.
#pragma once

#include <cstdint>

namespace mvcs {

inline constexpr std::int32_t largest_code = 32767;
inline constexpr std::int32_t exception_code = -32768;  // whatever the step

}  // namespace mvcs
