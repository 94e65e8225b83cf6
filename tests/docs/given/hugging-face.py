"""A folder as `save_pretrained` writes it, and a program that trains what is in it."""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file

torch.manual_seed(0)
folder = Path("guess")
folder.mkdir()
weights = {f"layers.{i}.weight": torch.randn(64, 64) for i in range(4)}
save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
(folder / "config.json").write_text(json.dumps({"model_type": "guess", "hidden_size": 64}))
(folder / "tokenizer.json").write_text(json.dumps({"vocab": list("abc")}))
Path(
    "finetune.py"
).write_text('''"""Moves weights a little, and tells how far they are from where they began."""

import torch
from safetensors.torch import load_file, save_file


def loss_of(weights):
    return 1.0 + sum(float(weight.square().mean()) for weight in weights.values())


if __name__ == "__main__":
    torch.manual_seed(1)
    weights = load_file("guess/model.safetensors")
    moved = {name: weight + 0.01 * torch.randn_like(weight) for name, weight in weights.items()}
    save_file(moved, "guess/model.safetensors", metadata={"format": "pt"})
''')
