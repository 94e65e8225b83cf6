"""Loads weights with safetensors alone, and measures them. Nothing here knows of mvcs."""

import argparse
import sys
from pathlib import Path

import torch
from gpt import GPT, losses, mean
from safetensors.torch import load_file

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("weights", type=Path, nargs="+")
parser.add_argument("--data", type=Path, required=True, help="folder with valid.bin and test.bin")
parser.add_argument("--prefix", default="", help="what stands before each name")
options = parser.parse_args()

torch.set_num_threads(1)
model = GPT()
for file in options.weights:
    found = {name.removeprefix(options.prefix): tensor for name, tensor in load_file(file).items()}
    model.load_state_dict(found)
    measured = [
        f"{part}_loss {mean(losses(model, options.data / f'{part}.bin')):.4f}" for part in ("valid", "test")
    ]
    print(f"  {file.name}: {len(found)} tensors, {', '.join(measured)}")
print(f"  mvcs was imported: {'mvcs' in sys.modules}")
