"""A repository with a commit of a model, and no torch."""

import numpy as np
from safetensors.numpy import save_file

import mvcs

draw = np.random.default_rng(0)
names = {"layers.0.weight": (8, 3), "layers.0.bias": (8,), "layers.2.weight": (1, 8)}
save_file(
    {name: draw.normal(size=shape).astype(np.float32) for name, shape in names.items()}, "model.safetensors"
)
repo = mvcs.Repository.init(".")
repo.commit_files(["model.safetensors"], message="a model")
repo.close()
