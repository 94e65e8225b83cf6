// Which instructions kernels may use. Every level writes the same bytes; tests force each of them.
#pragma once

#include <atomic>
#include <array>
#include <string_view>

#include "base/span.hpp"

namespace mvcs {

enum class Level : int { portable = 0, avx2 = 1, avx512 = 2 };

inline constexpr std::array<std::string_view, 3> level_names{"portable", "avx2", "avx512"};

// Marks a function for one level: the compiler may use its instructions, the caller asks active_level() before.
#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define MVCS_X86 1
#define MVCS_AVX2 __attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt")))
#define MVCS_AVX512 \
    __attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt,avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi,avx512vbmi2")))
#endif

// The best level of this machine.
inline Level best_level() {
#ifdef MVCS_X86
    const auto avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2");
    const auto avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi") &&
                        __builtin_cpu_supports("avx512vbmi2");
    if (avx2 && avx512) return Level::avx512;
    if (avx2) return Level::avx2;
#endif
    return Level::portable;
}

namespace detail {

inline std::atomic<Level>& chosen_level() {
    static std::atomic<Level> level{best_level()};
    return level;
}

}  // namespace detail

inline Level active_level() { return detail::chosen_level().load(std::memory_order_relaxed); }

// Selects a level for all later calls; refuses one that this machine lacks.
inline void use_level(std::string_view name) {
    for (std::size_t i = 0; i < level_names.size(); ++i) {
        if (level_names[i] != name) continue;
        require(static_cast<Level>(i) <= best_level(), "this machine lacks the instructions of that level");
        detail::chosen_level().store(static_cast<Level>(i), std::memory_order_relaxed);
        return;
    }
    throw Invalid("a level is portable, avx2 or avx512");
}

}  // namespace mvcs
