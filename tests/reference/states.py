"""States that both readers read: one of each kind of leaf and structure, and those of a small training."""

import math
from collections.abc import Iterator

import numpy as np
import torch

KINDS_OF_BOUNDS = {
    "exact": {},
    "lattice": {"step_size": 0.5},
    "fine lattice": {"step_size": 0.01},
    "table": {"bins": 16},
    "pruned table": {"bins": 253, "prune": 0.3, "protect": 0.01},
}


def all_kinds() -> dict[str, object]:
    """A state of each kind of leaf and structure."""
    of = torch.Generator().manual_seed(1)
    large = torch.randn(96, 768, generator=of) / 50  # more than one piece of 2^16 words
    integers = {f"i{8 * size}": torch.randint(-99, 99, (3000,), generator=of) for size in (1, 2, 4, 8)}
    return {
        "large": large,
        "tied": large,
        "half": torch.randn(32, 48, generator=of).half(),
        "brain": torch.randn(64, 64, generator=of).bfloat16(),
        "double": torch.randn(40, 30, generator=of, dtype=torch.float64),
        "float8": torch.randn(600, generator=of).to(torch.float8_e4m3fn),
        "complex": torch.randn(500, generator=of, dtype=torch.complex64),
        "complex128": torch.randn(500, generator=of, dtype=torch.complex128),
        "bool": torch.rand(900, generator=of) > 0.5,
        "empty": torch.zeros(0, 4),
        "scalar": torch.tensor(3.5),
        "constant": torch.ones(50, 60),
        "parameter": torch.nn.Parameter(torch.randn(30, 20, generator=of)),
        "module": torch.nn.Linear(3, 4).state_dict(),
        **{name: values.to(getattr(torch, f"int{name[1:]}")) for name, values in integers.items()},
        "torch": [torch.bfloat16, torch.device("cpu"), torch.Size([2, 3])],
        "numpy": (np.float32(2.5), np.arange(7, dtype=">i4")),
        "bytes": (b"y" * 6000, bytearray(b"z" * 5000), bytearray(b"q")),
        "text": ["x" * 5000, "\ud800", -(2**70), 2**64, math.nan, -0.0, 1 - 2j],
        "sets": [frozenset([1, 2, 3j, "long" * 2000]), {None, True}],
    }


def moved(values: dict[str, object], step: int) -> dict[str, object]:
    """The next state: floats move a little and integers up; some values cannot be codes."""
    of = torch.Generator().manual_seed(100 + step)
    for name, tensor in values.items():
        if isinstance(tensor, torch.Tensor) and tensor.dtype in {torch.float16, torch.float32, torch.float64}:
            tensor.detach().add_(
                torch.randn(tensor.shape, generator=of).to(tensor.dtype) / (3000 if step % 2 else 50)
            )
        if name.startswith("i"):
            tensor.add_(torch.randint(0, 9, tensor.shape, generator=of).to(tensor.dtype))
    values["brain"][step] *= 2
    values["double"][step, :3] = torch.tensor([math.inf, math.nan, 1e-300])
    values["large"] *= 1.7 if step == 2 else 1  # its steps change
    return values


def training(steps: int) -> Iterator[dict[str, object]]:
    """States of a model, a copy in 16 bits and its optimizer."""
    torch.manual_seed(3)
    net = torch.nn.Sequential(torch.nn.Embedding(200, 32), torch.nn.Linear(32, 64), torch.nn.Linear(64, 200))
    optimizer = torch.optim.AdamW(net.parameters())
    for step in range(steps):
        for _ in range(3 + 4 * step):
            words = torch.randint(0, 200, (16,))
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(words), words).backward()
            optimizer.step()
        copies = {name: value.bfloat16() for name, value in net.state_dict().items()}
        yield {"model": net.state_dict(), "optimizer": optimizer.state_dict(), "copies": copies}
