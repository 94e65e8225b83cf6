// One body for every instruction level: the compiler vectorises it for each, and the level in use is called.
#pragma once

#include "cpu.hpp"

// Such a function takes over the instructions of the function that it is inlined into.
#if defined(__GNUC__) || defined(__clang__)
#define MVCS_INLINE [[gnu::always_inline]] inline
#define MVCS_INLINED __attribute__((always_inline))
#else
#define MVCS_INLINE inline
#define MVCS_INLINED
#endif

namespace mvcs {

namespace detail {

#ifdef MVCS_X86
template <class Body>
MVCS_AVX2 inline void run_avx2(Body body) {
    body();
}

template <class Body>
MVCS_AVX512 inline void run_avx512(Body body) {
    body();
}
#endif

}  // namespace detail

// Runs a body marked MVCS_INLINED, which calls nothing but functions marked MVCS_INLINE.
template <class Body>
void at_level(Body body) {
#ifdef MVCS_X86
    if (active_level() == Level::avx512) return detail::run_avx512(body);
    if (active_level() == Level::avx2) return detail::run_avx2(body);
#endif
    body();
}

}  // namespace mvcs
