"""A repository with fifteen commits of a model, all but the newest written three weeks ago."""

import os
import time
from pathlib import Path

import torch
from safetensors.torch import save_file

import mvcs

torch.manual_seed(0)
weights = {f"layers.{i}.weight": torch.randn(128, 128) for i in range(4)}
with mvcs.Repository.init(".") as repo:
    for step in range(499, 7999, 500):
        if step > 7000:
            for path in Path(".mvcs/packs").glob("*/*.pack"):
                os.utime(path, (time.time() - 21 * 86400,) * 2)
        weights = {name: weight + 0.01 * torch.randn_like(weight) for name, weight in weights.items()}
        save_file(weights, "model.safetensors")
        metrics = {"val_loss": 2 + abs(step - 4999) / 1000}
        repo.commit_files(["model.safetensors"], message="", step=step, metrics=metrics, step_size=0.5)
