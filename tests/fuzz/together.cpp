// The targets that share kernels in one program, which is built in little more than the time of one of them. Build it
// with -DSTANDALONE.
//
//     ./together codes 300        what the program of `fuzz_codes.cpp` does when it is told 300
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string_view>
#include <vector>

#include "entropy/gaps.hpp"
#include "exact/planes.hpp"
#include "exact/residual.hpp"
#include "groups/groups.hpp"
#include "moves/rans_moves.hpp"

// Headers are here already, so that only what is a target's own falls into its namespace.
#define LLVMFuzzerTestOneInput codes_input
#define main run
namespace codes {
#include "fuzz_codes.cpp"
}
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput exact_input
namespace exact {
#include "fuzz_exact.cpp"
}
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput rans_input
namespace rans {
#include "fuzz_rans.cpp"
}
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput rans_codes_input
namespace rans_codes {
#include "fuzz_rans_codes.cpp"
}
#undef main

int main(int count, char** words) {
    const std::string_view target = count > 1 ? words[1] : "";
    if (target == "codes") return codes::run(count - 1, words + 1);
    if (target == "exact") return exact::run(count - 1, words + 1);
    if (target == "rans") return rans::run(count - 1, words + 1);
    if (target == "rans_codes") return rans_codes::run(count - 1, words + 1);
    std::fputs("no such target\n", stderr);
    return 1;
}
