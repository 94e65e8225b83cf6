// One readable loop for all levels: the compiler vectorises it with the instructions of each.
#pragma once

#include "base/cpu.hpp"

namespace mvcs {

#if defined(__GNUC__) || defined(__clang__)
#define MVCS_INLINE __attribute__((always_inline))
#else
#define MVCS_INLINE
#endif

namespace detail {

#ifdef MVCS_X86
template <class Loop>
MVCS_AVX2 void run_avx2(const Loop& loop) {
    loop();
}

template <class Loop>
MVCS_AVX512 void run_avx512(const Loop& loop) {
    loop();
}
#endif

}  // namespace detail

// Runs a loop, a lambda marked MVCS_INLINE, compiled for the active level. Lanes never mix, nothing is contracted:
// all levels do the same IEEE operations on the same numbers.
template <class Loop>
void at_active_level(const Loop& loop) {
#ifdef MVCS_X86
    if (active_level() == Level::avx512) return detail::run_avx512(loop);
    if (active_level() == Level::avx2) return detail::run_avx2(loop);
#endif
    loop();
}

}  // namespace mvcs
