"""Training states as PyTorch makes them, and tensors that no quantizer expects."""

from typing import Any

import torch

NAN, INF = float("nan"), float("inf")


class Net(torch.nn.Module):
    """Convolution, batch norm, an embedding whose first rows never get a gradient, and a tied output."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(8)
        self.words = torch.nn.Embedding(60, 32)
        self.mix = torch.nn.Linear(8, 32)
        self.out = torch.nn.Linear(32, 60, bias=False)
        self.out.weight = self.words.weight

    def forward(self, images, tokens):
        seen = torch.relu(self.norm(self.conv(images))).mean((2, 3))
        return self.out(self.mix(seen) + self.words(tokens))


class Lookup(torch.nn.Module):
    """An embedding of which only some rows are ever used."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = torch.nn.Embedding(200, 16)
        self.top = torch.nn.Linear(16, 4)

    def forward(self, tokens):
        return self.top(self.rows(tokens))


class Run:
    """A small training run that can be stepped, saved and loaded."""

    def __init__(self, make, seed: int = 0) -> None:
        torch.manual_seed(seed)
        self.net, self.lookup = Net(), Lookup()
        self.optimizer = make([*self.net.parameters(), *self.lookup.parameters()])
        self.random = torch.Generator().manual_seed(seed)

    def step(self, number: int = 1) -> "Run":
        for _ in range(number):
            images = torch.randn(4, 3, 6, 6, generator=self.random)
            tokens = torch.randint(30, 60, (4,), generator=self.random)
            self.optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(self.net(images, tokens), tokens)
            loss = loss + self.lookup(tokens).square().mean()
            loss.backward()
            self.optimizer.step()
        return self

    def state(self) -> dict[str, Any]:
        return {
            "model": {"net": self.net.state_dict(), "lookup": self.lookup.state_dict()},
            "optimizer": self.optimizer.state_dict(),
        }

    def load(self, state: dict[str, Any]) -> "Run":
        self.net.load_state_dict(state["model"]["net"])
        self.lookup.load_state_dict(state["model"]["lookup"])
        self.optimizer.load_state_dict(state["optimizer"])
        return self


def odd(seed: int) -> dict[str, Any]:
    """Tensors of every kind that has ever broken a quantizer."""

    def noise(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))

    normal = noise(64, 48)
    special = normal.clone()
    special[3, 4], special[5, 6], special[7, 8], special[9, 1], special[0, 0] = NAN, INF, -INF, 1e-42, -0.0
    misaligned = torch.frombuffer(bytearray(noise(51).numpy().tobytes()), dtype=torch.float32, offset=4)
    return {
        "normal": normal,
        "special": special,
        "tied": normal,
        "equal": normal.clone(),
        "view": normal[:10],
        "zeros": torch.zeros(64, 48),
        "negative zeros": -torch.zeros(64, 48),
        "all equal": torch.full((33, 5), 0.1),
        "one": noise(1, 1),
        "scalar": noise(1)[0],
        "empty": [torch.zeros(0, 4), torch.zeros(4, 0), torch.zeros(0)],
        "transposed": noise(48, 64).T,
        "strided": noise(100, 100)[::3, ::7],
        "misaligned": misaligned,
        "all nan": torch.full((20, 20), NAN),
        "all inf": torch.full((20,), INF),
        "subnormal": noise(30, 30) * 1e-40,
        "huge": noise(30, 30) * 1e37,
        "tiny": noise(30, 30) * 1e-30,
        "half": {"one": normal.half(), "small": (normal * 1e-7).half(), "large": (normal * 15000).half()},
        "brain": {"one": normal.bfloat16(), "large": (normal * 5e37).bfloat16()},
        "double": {
            "one": normal.double(),
            "large": normal.double() * 1e100,
            "small": normal.double() * 1e-100,
        },
        "vector": [noise(64), noise(64).half(), noise(64).bfloat16(), noise(64).double()],
        "others": [torch.arange(10), torch.ones(3, dtype=torch.bool), noise(4, 4).to(torch.complex64)],
        "bn.running_var": noise(64).abs(),
        "dead.running_var": torch.cat([torch.zeros(5), noise(5).abs(), torch.tensor([NAN])]),
        "optimizer": {"state": odd_moments(normal, special), "param_groups": []},
    }


def odd_moments(normal: torch.Tensor, special: torch.Tensor) -> dict[str, dict[str, torch.Tensor]]:
    """Moments of Adam and SGD that no run should have, and some do."""
    sparse = normal.clone()
    sparse[:40], sparse[:, :9] = 0, 0
    return {
        "plain": {"exp_avg": normal * 0.1, "exp_avg_sq": normal**2 * 1e-4},
        "fresh": {"exp_avg": torch.zeros(5, 5), "exp_avg_sq": torch.zeros(5, 5)},
        "broken": {"exp_avg": special * 0.1, "exp_avg_sq": special**2},
        "sparse": {"exp_avg": sparse * 0.1, "exp_avg_sq": sparse**2},
        "half": {"exp_avg": (normal * 0.1).half(), "exp_avg_sq": (normal**2 * 1e-6).half()},
        "brain": {"exp_avg": (normal * 0.1).bfloat16(), "exp_avg_sq": (normal**2 * 1e-6).bfloat16()},
        "double": {"exp_avg": normal.double() * 1e-60, "exp_avg_sq": normal.double() ** 2 * 1e-120},
        "negative": {"exp_avg": normal * 2, "exp_avg_sq": -(normal**2) * 3},
        "empty": {"exp_avg": torch.zeros(0, 3), "exp_avg_sq": torch.zeros(0, 3)},
        "one": {"exp_avg": normal[:1, :1] * 3, "exp_avg_sq": normal[:1, :1] ** 2},
        "momentum": {"momentum_buffer": normal * 5},
        "broken momentum": {"momentum_buffer": special * 7},
    }


def tensors(state: Any, path: str = "") -> dict[str, torch.Tensor]:
    """Every tensor of a state by path."""
    if isinstance(state, torch.Tensor):
        return {path: state}
    items = state.items() if isinstance(state, dict) else enumerate(state)
    found: dict[str, torch.Tensor] = {}
    for key, value in items:
        if isinstance(value, dict | list | tuple | torch.Tensor):
            found |= tensors(value, f"{path}.{key}" if path else str(key))
    return found


def bits(state: Any) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    """Every tensor by path as dtype, shape and bytes, so that NaN equals NaN bit for bit."""
    return {
        path: (str(value.dtype), tuple(value.shape), raw(value)) for path, value in tensors(state).items()
    }


def raw(value: torch.Tensor) -> bytes:
    return value.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
