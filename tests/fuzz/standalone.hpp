// A fuzz target as a program of its own, without libFuzzer: it damages as many payloads of its own as told, or runs
// the files it is given. Include it behind `damage(rounds)`, once for each target.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

int main(int argc, char** argv) {
    if (argc == 2 && std::strspn(argv[1], "0123456789") == std::strlen(argv[1])) {
        const long rounds = std::atol(argv[1]);
        damage(rounds);
        std::printf("%ld payloads\n", rounds);
        return 0;
    }
    for (int i = 1; i < argc; ++i) {
        std::ifstream file(argv[i], std::ios::binary);
        const std::vector<char> input((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
        LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
    }
    std::printf("%d inputs\n", argc - 1);
    return 0;
}
