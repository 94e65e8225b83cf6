"""Element types that the installed library of safetensors can write: each version knows more of them."""

import safetensors.torch
import torch

from mvcs.objects.chunk_grid import DTYPES


def writable() -> list[str]:
    return [name for name in DTYPES if not name.startswith("complex") and _is_known(getattr(torch, name))]


def _is_known(dtype: torch.dtype) -> bool:
    try:
        safetensors.torch.save({"x": torch.zeros(8, dtype=torch.uint8).view(dtype)})
    except KeyError:
        return False
    return True
