"""A repository with two commits of a model, and another model."""

import runpy

from safetensors.torch import save_file

weights = runpy.run_path("/given/two_commits.py")["weights"]
save_file({name: weight * 3 for name, weight in weights.items()}, "other.safetensors")
