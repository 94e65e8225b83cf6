"""Gradients as a state holds them: sparse ones, which no commit can hold, as their indices and values."""

import warnings
from collections.abc import Mapping
from typing import Any

import torch

Saved = torch.Tensor | dict[str, Any] | None
"""A gradient that is kept: a tensor, or of a sparse one `{"indices", "values", "shape"}`; None for none."""


def packed(gradient: torch.Tensor | None) -> Saved:
    """Return a gradient in parts that a commit can hold; they are the live ones.

    A sparse one is not made dense, which may take all memory there is, and its optimizer would refuse that.
    """
    if gradient is None or gradient.layout is not torch.sparse_coo:
        return gradient
    # The private names give these without adding values of one place up first.
    indices, values = gradient._indices(), gradient._values()  # noqa: SLF001 - torch's
    return {"indices": indices, "values": values, "shape": list(gradient.shape)}


def unpacked(saved: Saved, device: torch.device) -> torch.Tensor | None:
    """Return a copy of what `packed` returned as a gradient on a device.

    Raises:
        KeyError, TypeError, RuntimeError, ValueError: it is none.
    """
    if not isinstance(saved, Mapping):
        return None if saved is None else saved.to(device, copy=True)
    indices, values = (saved[name].to(device, copy=True) for name in ("indices", "values"))
    with warnings.catch_warnings():
        # Of checks that are not asked for elsewhere: torch 2.11 says so even where they are.
        warnings.filterwarnings("ignore", "Sparse invariant checks are implicitly disabled")
        return torch.sparse_coo_tensor(indices, values, size=tuple(saved["shape"]), check_invariants=True)


def is_zero(gradient: torch.Tensor) -> bool:
    """Tell whether a gradient is known to be zeros; it is looked through."""
    if gradient.layout is torch.sparse_coo:
        gradient = gradient._values()  # noqa: SLF001 - as above
    return gradient.layout is torch.strided and not gradient.count_nonzero()


def nbytes(saved: Saved) -> int:
    """Return how many bytes a commit holds of a gradient."""
    if isinstance(saved, Mapping):
        return int(saved["indices"].nbytes + saved["values"].nbytes)
    return 0 if saved is None else saved.nbytes
