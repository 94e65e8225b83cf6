// The extension module: one file of bindings for each family of kernels.
#include "bind.hpp"

NB_MODULE(_core, module) {
    module.doc() = "Hot kernels of mvcs: sketch, k-means, assignment, and the coders of codes.";
    mvcs::bind_levels(module);
    mvcs::bind_quantizing(module);
    mvcs::bind_groups(module);
    mvcs::bind_exact(module);
    mvcs::bind_lattice(module);
    mvcs::bind_memory(module);
    mvcs::bind_rans(module);
}
