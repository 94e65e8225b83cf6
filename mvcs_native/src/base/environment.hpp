// The floating-point environment in which kernels give the same results everywhere.
#pragma once

#include <cfenv>

#include "base/cpu.hpp"

#ifdef MVCS_X86
#include <xmmintrin.h>
#endif

namespace mvcs {

// Rounding to nearest even, subnormals kept: whatever the caller's thread has set is back afterwards. Frameworks
// set threads to flush subnormals to zero.
class DefaultEnvironment {
   public:
    DefaultEnvironment() {
#ifdef MVCS_X86
        _mm_setcsr(defaults);
#else
        std::fegetenv(&before_);
        std::fesetenv(FE_DFL_ENV);
#endif
    }

    ~DefaultEnvironment() {
#ifdef MVCS_X86
        _mm_setcsr(before_);
#else
        std::fesetenv(&before_);
#endif
    }

    DefaultEnvironment(const DefaultEnvironment&) = delete;
    DefaultEnvironment& operator=(const DefaultEnvironment&) = delete;

   private:
#ifdef MVCS_X86
    static constexpr unsigned defaults = 0x1F80;  // all exceptions masked, nearest even, no flush to zero
    unsigned before_ = _mm_getcsr();
#else
    std::fenv_t before_;
#endif
};

}  // namespace mvcs
