"""A model."""

import torch
from safetensors.torch import save_file

torch.manual_seed(0)
save_file({f"layers.{i}.weight": torch.randn(64, 64) for i in range(4)}, "model.safetensors")
