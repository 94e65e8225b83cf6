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
#include <cpuid.h>
#define MVCS_AVX2 __attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt")))
#define MVCS_AVX512 \
    __attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt,avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512vbmi,avx512vbmi2")))
#endif

// The best level of this machine: what the processor has, and of which registers the system keeps the state.
// The instruction is asked itself, since not every compiler's library answers __builtin_cpu_supports: zig's says no to all.
inline Level best_level() {
#ifdef MVCS_X86
    unsigned a = 0, b = 0, c = 0, d = 0, kept = 0, high = 0;
    const auto all = [](unsigned found, unsigned wanted) { return (found & wanted) == wanted; };
    if (!__get_cpuid(1, &a, &b, &c, &d) || !all(c, bit_OSXSAVE | bit_AVX | bit_POPCNT)) return Level::portable;
    __asm__ volatile("xgetbv" : "=a"(kept), "=d"(high) : "c"(0));
    if (!__get_cpuid(0x80000001, &a, &b, &c, &d) || !all(c, bit_LZCNT)) return Level::portable;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return Level::portable;
    const auto ymm = 0x06U, zmm = 0xe6U;
    if (!all(kept, ymm) || !all(b, bit_AVX2 | bit_BMI | bit_BMI2)) return Level::portable;
    const auto wide = bit_AVX512F | bit_AVX512BW | bit_AVX512CD | bit_AVX512DQ | bit_AVX512VL;
    const auto is_wide = all(kept, zmm) && all(b, wide) && all(c, bit_AVX512VBMI | bit_AVX512VBMI2);
    return is_wide ? Level::avx512 : Level::avx2;
#else
    return Level::portable;
#endif
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
