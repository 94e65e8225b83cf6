"""A repository with two commits of a model. Pages that begin with one call it."""

import torch
from safetensors.torch import save_file

import mvcs

torch.manual_seed(0)
weights = {f"layers.{i}.weight": torch.randn(128, 128) for i in range(4)}
with mvcs.Repository.init(".") as repo:
    for step, message in ((99, "first"), (199, "second")):
        weights = {name: weight + 0.01 * torch.randn_like(weight) for name, weight in weights.items()}
        save_file(weights, "model.safetensors")
        repo.commit_files(["model.safetensors"], message=message, step=step, step_size=0.5)
