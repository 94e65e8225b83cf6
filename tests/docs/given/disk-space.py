"""A repository with two commits of a model, and a program that trains it on."""

import runpy
from pathlib import Path

runpy.run_path("/given/two_commits.py")
Path("next.py").write_text("""import torch
from safetensors.torch import load_file, save_file

weights = load_file("model.safetensors")
weights = {name: weight + 0.01 * torch.randn_like(weight) for name, weight in weights.items()}
save_file(weights, "model.safetensors")
""")
