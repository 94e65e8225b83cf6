"""A repository with four commits of a model whose loss explodes, and another model."""

import torch
from safetensors.torch import save_file

import mvcs

torch.manual_seed(0)
weights = {f"layers.{i}.weight": torch.randn(128, 128) for i in range(4)}
with mvcs.Repository.init(".") as repo:
    for step, loss in ((99, 2.5), (199, 2.25), (299, 7.75), (399, float("nan"))):
        weights = {name: weight + 0.01 * torch.randn_like(weight) for name, weight in weights.items()}
        save_file(weights, "model.safetensors")
        repo.commit_files(["model.safetensors"], message="", step=step, metrics={"loss": loss}, step_size=0.5)
save_file({name: weight * 3 for name, weight in weights.items()}, "other.safetensors")
