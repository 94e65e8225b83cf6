// The extension module: one file of bindings for each family of kernels.
#include "bind/bind.hpp"

NB_MODULE(_core, module) {
    // A script that ends with a live object, such as a checkpointer in a global, has done nothing wrong.
    nanobind::set_leak_warnings(false);
    module.doc() = "Hot kernels of mvcs: sketch, k-means, assignment, and the coders of codes.";
    mvcs::bind_levels(module);
    mvcs::bind_quantizing(module);
    mvcs::bind_groups(module);
    mvcs::bind_exact(module);
    mvcs::bind_lattice(module);
    mvcs::bind_memory(module);
    mvcs::bind_rans(module);
    mvcs::bind_thin(module);
}
