"""A repository with three commits of a model, measured."""

import torch
from safetensors.torch import save_file

import mvcs

torch.manual_seed(0)
weights = {f"layers.{i}.weight": torch.randn(128, 128) for i in range(4)}
repo = mvcs.Repository.init(".")
for step, loss, message in ((99, 2.5, "first"), (199, 2.25, "second"), (299, 2.375, "third")):
    weights = {name: weight + 0.01 * torch.randn_like(weight) for name, weight in weights.items()}
    save_file(weights, "model.safetensors")
    repo.commit_files(
        ["model.safetensors"], message=message, step=step, metrics={"val_loss": loss}, step_size=0.5
    )
repo.close()
