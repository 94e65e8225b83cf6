"""Loads weights with safetensors alone, and validates them. Nothing here knows of mvcs."""

import argparse
import sys
from pathlib import Path

import torch
from gpt import GPT, validate
from safetensors.torch import load_file

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("weights", type=Path)
parser.add_argument("--data", type=Path, required=True, help="folder with valid.bin")
parser.add_argument("--prefix", default="", help="what stands before each name")
options = parser.parse_args()

torch.set_num_threads(1)
found = {name.removeprefix(options.prefix): tensor for name, tensor in load_file(options.weights).items()}
model = GPT()
model.load_state_dict(found)
loss = validate(model, options.data / "valid.bin")
print(f"  {len(found)} tensors, val_loss {loss:.3f}; mvcs was imported: {'mvcs' in sys.modules}")
