"""Lattice codes on the device where PyTorch holds the weights, equal to those of the kernel."""

import numpy as np
import torch

from mvcs.quantize.lattices.steps import step_value

_EXCEPTION, _LARGEST = -32768, 32767
_MAGNITUDE, _SMALLEST_NORMAL, _INFINITY = 0x7FFFFFFF, 0x00800000, 0x7F800000


@torch.no_grad()
def lattice_codes(
    values: torch.Tensor, step: int, base: torch.Tensor | None = None, hysteresis: float = 0.0
) -> torch.Tensor:
    """Give every value the nearest multiple of a step, or the base's code where that is near.

    The same codes as `mvcs.quantize.lattice_codes` gives, on every device: one IEEE division, one comparison.

    Args:
        values: floats of any shape; float64 is rounded to float32 first.
        step: a step byte.
        base: int16 [n] on the same step and device, or None.
        hysteresis: in steps, from 0 up to, not including, 1.

    Returns:
        int16 [n] on the device of the values; -32768 marks what is kept exactly.
    """
    flat = values.reshape(-1).to(torch.float32)
    # Tensors, not numbers: PyTorch may multiply by the reciprocal of a number.
    unit = torch.tensor(step_value(step), dtype=torch.float32, device=flat.device)
    u = flat / unit
    codes = torch.nan_to_num(torch.round(u), nan=0.0).clamp(-_LARGEST - 1, _LARGEST + 1).to(torch.int32)
    if base is not None:
        reach = torch.tensor(np.float32(0.5) + np.float32(hysteresis), device=flat.device)
        codes = torch.where((u - base.to(torch.float32)).abs() <= reach, base.to(torch.int32), codes)
    kept = _ordinary(flat) & (codes.abs() <= _LARGEST)
    return torch.where(kept, codes, _EXCEPTION).to(torch.int16)


def _ordinary(values: torch.Tensor) -> torch.Tensor:
    """Tell zeros and normal numbers from subnormals, infinities and NaNs, by their bits."""
    patterns = values.view(torch.int32) & _MAGNITUDE
    return (patterns == 0) | ((patterns >= _SMALLEST_NORMAL) & (patterns < _INFINITY))
