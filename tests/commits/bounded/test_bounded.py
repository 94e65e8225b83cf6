"""Bounded commits of real and of odd states: what each layer restores, whatever came before."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import mvcs_native
from mvcs import Repository
from mvcs.objects.forms import Absent, Form, Lattice, LogLattice
from mvcs.progress import SILENT
from mvcs.quantize import KMeansConfig, LatticeConfig, MomentsConfig, step_value
from mvcs.restore.open_commit import open_reading
from tests.repository.models import Run, bits, odd, tensors

TIERS = ["exact", "resume", "light"]
BOUNDED = [
    {"step_size": 0.5},
    {"step_size": 0.5, "moments": "light"},
    {"step_size": 0.05, "hysteresis": 0.5, "share": "tensor", "moments": "exact"},
    {"step_size": 2**-16},
    pytest.param({"step_size": 16.0, "moments": "light"}, marks=pytest.mark.slow),
    pytest.param({"bins": 2}, marks=pytest.mark.slow),
    {"bins": 253, "prune": 0.2, "protect": 0.01, "moments": "light"},
]
# Half the distance between neighbours of a type, as a share of the value: what rounding to it may add.
ROUNDING = {torch.float16: 2**-11, torch.bfloat16: 2**-8, torch.float32: 2**-22, torch.float64: 2**-22}
SMALLEST_HALF = 2**-24


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[Repository]:
    with Repository.init(tmp_path / "run") as repository:
        yield repository


def forms(repo: Repository, rev: str) -> dict[str, bytes | Form]:
    """By which rule each quantized tensor is restored."""
    reading = open_reading(repo._session.reader(), repo._session.resolver.resolve(rev), SILENT)
    pairs = zip(reading.tree.leaf_paths(), reading.tree.leaves, strict=True)
    return {
        ".".join(map(str, path)): leaf.tensor.parameters for path, leaf in pairs if leaf.exact is not None
    }


def check_bounds(repo: Repository, rev: str, state: object, hysteresis: float) -> None:
    """What every form promises, element by element."""
    now, restored, kinds = tensors(state), tensors(repo.checkout(rev)), forms(repo, rev)
    for path, form in kinds.items():
        value, back = now[path].double(), restored[path].double()
        finite = value.isfinite()
        if not isinstance(form, Absent):
            assert torch.equal(finite, back.isfinite()), path
        assert back[finite].isfinite().all(), path
        if isinstance(form, Lattice):
            # Biases are not balanced, moments have no hysteresis either: the largest cap covers all.
            cap = max(0.5 + hysteresis, 0.75) * step_value(form.step) * 1.000001
            error = (back - value)[finite].abs()
            assert (error <= cap + ROUNDING[now[path].dtype] * value[finite].abs() + SMALLEST_HALF).all(), (
                path
            )
        if isinstance(form, LogLattice):
            assert not ((value != 0) & (back == 0)).any(), path
            if form.rows is None:
                assert not ((value == 0) & (back != 0)).any(), path


def check_updates(repo: Repository, rev: str) -> None:
    """A restored state of Adam gives finite updates."""
    restored = tensors(repo.checkout(rev))
    for path, second in restored.items():
        first = restored.get(path.removesuffix("_sq"))
        if path.endswith("exp_avg_sq") and first is not None:
            update = first.double() / (second.double().abs().sqrt() + 1e-8)
            assert update[second.isfinite() & first.isfinite()].isfinite().all(), path


@pytest.mark.parametrize("settings", BOUNDED, ids=str)
def test_odd_tensors(repo: Repository, settings: dict[str, float]) -> None:
    for seed in (0, 0, 1):
        state = odd(seed)
        made = repo.commit(state, **settings)
        assert made.exactness == "bounded"
        assert bits(repo.checkout(exact=True)) == bits(state)
        check_bounds(repo, made.id, state, settings.get("hysteresis", 0.5))
        check_updates(repo, made.id)
    assert repo.fsck().problems == []


OPTIMIZERS = {
    "AdamW": torch.optim.AdamW,
    "amsgrad": lambda given: torch.optim.Adam(given, amsgrad=True),
    "fused": lambda given: torch.optim.AdamW(given, fused=True),
    "SGD": lambda given: torch.optim.SGD(given, 0.1, momentum=0.9, nesterov=True),
    "RMSprop": lambda given: torch.optim.RMSprop(given, momentum=0.9, centered=True),
    "Adamax": torch.optim.Adamax,
    "NAdam": torch.optim.NAdam,
    "RAdam": torch.optim.RAdam,
    "Adadelta": torch.optim.Adadelta,
    "Adagrad": torch.optim.Adagrad,
    "ASGD": torch.optim.ASGD,
}


# What they keep has the same names as what AdamW keeps.
LIKE_ADAMW = {"fused", "RAdam"}


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(make, id=name, marks=[pytest.mark.slow] if name in LIKE_ADAMW else [])
        for name, make in OPTIMIZERS.items()
    ],
)
def test_every_optimizer_trains_on_from_the_values(repo: Repository, make) -> None:
    run = Run(make)
    for moments in ("resume", "light"):
        state = run.step(3).state()
        made = repo.commit(state, step_size=0.5, moments=moments)
        assert bits(repo.checkout(exact=True)) == bits(state)
        check_bounds(repo, made.id, state, 0.5)
        again = Run(make, seed=1).load(repo.checkout(made.id)).step(3)
        assert all(value.isfinite().all() for value in tensors(again.state()).values())
    assert repo.fsck().problems == []


def test_a_mixed_precision_run_before_its_first_gradient(repo: Repository) -> None:
    """A bias of zeros is then equal to its master and to both moments."""
    model = {"weight": torch.randn(40, 30), "bias": torch.zeros(40, 2)}
    state = {
        "model": {name: value.bfloat16() for name, value in model.items()},
        "master": model,
        "optimizer": {
            "state": {
                number: {"exp_avg": torch.zeros_like(value), "exp_avg_sq": torch.zeros_like(value)}
                for number, value in enumerate(model.values())
            },
            "param_groups": [],
        },
    }
    for moments in TIERS:
        repo.commit(state, step_size=0.5, moments=moments)
        assert bits(repo.checkout(exact=True)) == bits(state)
        restored = repo.checkout()
        assert torch.equal(restored["model"]["weight"], restored["master"]["weight"].bfloat16())


def test_values_too_large_or_too_small_for_16_bits_stay(repo: Repository) -> None:
    """Rounded to a lattice, the largest halves would be infinite, and the smallest second moments zero."""
    large = torch.full((40, 40), 65504.0).half()
    large[::2] = 1.0
    small = (2.0 ** -torch.arange(10, 25).float()).half().repeat(100, 1)
    state = {"large": large, "optimizer": {"0.exp_avg_sq": small, "0.exp_avg": small.clone()}}
    for size in (0.25, 0.3, 0.5, 0.7, 1.0):
        made = repo.commit(state, step_size=size)
        restored = repo.checkout(made.id)
        assert restored["large"].isfinite().all()
        assert (restored["optimizer"]["0.exp_avg_sq"] > 0).all()


def test_a_scale_below_every_step_is_kept_exactly(repo: Repository) -> None:
    state = {"w": torch.randn(50, 50) * 1e-25, "bias": torch.randn(50) * 1e-25}
    repo.commit(state | {"normal": torch.randn(50, 50)}, step_size=0.5)
    restored = repo.checkout()
    assert torch.equal(restored["w"], state["w"])
    assert torch.equal(restored["bias"], state["bias"])


def test_offsets_alone_never_lose_a_second_moment(repo: Repository) -> None:
    """Rows of subnormals have no mean, and a mean may round to what a type does not have."""
    torch.manual_seed(0)
    second = torch.rand(100, 100) * 1e-8 + 1e-10
    small = second.clone()
    small[7], small[:, 3] = 1e-41, 1e-42
    large = second.bfloat16()
    large[5] = 3.38e38
    for value in (small, large, second.half() * 1e-4, small.double() * 1e-5):
        moments = {"exp_avg": torch.randn(100, 100).to(value.dtype), "exp_avg_sq": value}
        state = {"optimizer": {"state": {0: moments}, "param_groups": []}}
        repo.commit(state, step_size=0.5, moments="light")
        (restored,) = (each for path, each in tensors(repo.checkout()).items() if path.endswith("exp_avg_sq"))
        assert restored.isfinite().all()
        assert torch.equal(restored == 0, value == 0)


def test_only_codes_that_can_be_bases_stay_in_memory(repo: Repository) -> None:
    weight = torch.randn(200, 150)
    moments = {"exp_avg": torch.randn(200, 150), "exp_avg_sq": torch.rand(200, 150)}
    repo.commit(
        {"w": weight, "optimizer": {"state": {0: moments}, "param_groups": []}},
        quantizer=LatticeConfig(moments=MomentsConfig(0.5, 0.5)),
    )
    held = repo._session.store.recent
    codes = [
        leaf.tensor.codes[0]
        for leaf in open_reading(
            repo._session.reader(), repo._session.resolver.resolve("HEAD"), SILENT
        ).tree.leaves
    ]
    assert [held.look(each) is not None for each in codes] == [True, False, True]


def test_many_exceptions_in_one_chunk(repo: Repository) -> None:
    """Rows that decayed to subnormals, of a table so large that all the rest is no exception."""
    torch.manual_seed(0)
    table = torch.zeros(17_300, 1000)
    table[1100:] = torch.randn(1000)
    table[:1060] = torch.randint(1, 1 << 23, (1060, 1000), dtype=torch.int32).view(torch.float32)
    repo.commit({"w": table}, step_size=0.5)
    assert torch.equal(repo.checkout()["w"][:1060].view(torch.int32), table[:1060].view(torch.int32))


SETTINGS = [
    {"step_size": 0.5},
    {"step_size": 0.5, "moments": "light"},
    {"step_size": 0.25, "moments": "exact"},
    {"bins": 16},
    {"step_size": 0.5, "hysteresis": 0.0, "share": "tensor"},
    {},
    {"bins": 4, "prune": 0.5},
    {"quantizer": LatticeConfig(moments=MomentsConfig(0.5, 0.5), small=None)},
    {"quantizer": KMeansConfig(bins=30, moments=MomentsConfig("absent", 1.0), small=1.0)},
    {"quantizer": LatticeConfig(moments=MomentsConfig("sign", "rank-1"))},
]
MORE = [{"step_size": 0.01}, {"bins": 200, "moments": "light"}, {"step_size": 4.0, "moments": "light"}]


@pytest.mark.parametrize(
    "order",
    [SETTINGS, pytest.param([*SETTINGS[:7], *MORE, *SETTINGS[7:], *SETTINGS[::-3]], marks=pytest.mark.slow)],
    ids=["each", "each and some again"],
)
def test_settings_may_change_with_every_commit(repo: Repository, order: list[dict[str, object]]) -> None:
    run, made = Run(torch.optim.AdamW), {}
    for settings in order:
        state = run.step().state()
        info = repo.commit(state, **settings)
        assert info.exactness == ("bounded" if settings else "exact")
        assert bits(repo.checkout(exact=True)) == bits(state)
        check_bounds(repo, info.id, state, settings.get("hysteresis", 0.5))
        made[info.id] = bits(repo.checkout())
    assert {rev: bits(repo.checkout(rev)) for rev in made} == made
    assert repo.fsck().problems == []


def test_tensors_come_go_and_change_while_the_rest_stays_near_its_base(repo: Repository) -> None:
    torch.manual_seed(0)
    rest = {f"blocks.{number}.weight": torch.randn(300, 200) for number in range(4)}
    changes = [
        {"old": torch.randn(100, 100), "resized": torch.randn(60, 50), "retyped": torch.randn(80, 80)},
        {"new": torch.randn(100, 100), "resized": torch.randn(70, 50), "retyped": torch.randn(80, 80).half()},
        {"new": torch.randn(10000), "resized": torch.randn(70), "retyped": torch.randint(9, (80, 80))},
    ]
    for number, change in enumerate(changes):
        rest = {name: value + 0.1 * torch.randn_like(value) for name, value in rest.items()}
        made = repo.commit(rest | change, step_size=0.5)
        assert bits(repo.checkout(exact=True)) == bits(rest | change)
        shown = {tensor.path: tensor for tensor in repo.show(made.id).tensors}
        for name in rest:
            assert shown[name].encoding == ("rans_delta" if number else "rans_codes")
        assert all(shown[name].depth == 0 for name in change)
    assert repo.fsck().problems == []


@pytest.mark.parametrize("commits", [12, pytest.param(30, marks=pytest.mark.slow)])
def test_hysteresis_never_adds_up(repo: Repository, commits: int) -> None:
    """A random walk of commits: the error of each is within its own step."""
    torch.manual_seed(0)
    weight, stored = torch.randn(150, 100), []
    for _ in range(commits):
        made = repo.commit({"w": weight.clone()}, step_size=0.5, hysteresis=0.5)
        (form,) = forms(repo, made.id).values()
        error = (repo.checkout(made.id)["w"] - weight).abs().max().item()
        assert error <= step_value(form.step) * 1.000001
        assert made.errors["weight"]["max_abs"] == pytest.approx(error)
        (tensor,) = repo.show(made.id).tensors
        stored.append(tensor.stored_bytes)
        weight += 0.05 * torch.randn_like(weight)
    assert max(stored[1:]) < stored[0] / 5


def commit_contents(folder: Path, threads: int) -> list[tuple[object, ...]]:
    """What commits of one run say of content: all but times and parents."""
    with Repository.init(folder) as repo:
        repo.config_set("commit.threads", str(threads))
        run, found = Run(torch.optim.AdamW), []
        wide = torch.randn(2300, 2000, generator=torch.Generator().manual_seed(0))
        for number, settings in enumerate(({"step_size": 0.5}, {"step_size": 0.4, "moments": "light"})):
            state = run.state() | {"wide": wide + 0.01 * number, "odd": odd(number)}
            made = repo.commit(state, **settings)
            commit = repo._session.resolver.resolve(made.id).commit
            found.append((commit.tree, commit.errors, commit.quantizer))
    return found


def test_content_is_the_same_on_every_processor_and_with_any_threads(tmp_path: Path) -> None:
    before, found = mvcs_native.level(), []
    try:
        for level in mvcs_native.levels():
            mvcs_native.use_level(level)
            found.append(commit_contents(tmp_path / level, threads=1))
    finally:
        mvcs_native.use_level(before)
    found.append(commit_contents(tmp_path / "threads", threads=2))
    assert all(each == found[0] for each in found)


@pytest.mark.parametrize("share", ["type", "tensor"])
def test_rounding_errors_of_a_row_cancel_out(repo: Repository, share: str) -> None:
    """Of kernels that all move one way, as hysteresis alone would lag behind; biases stay as they are."""
    torch.manual_seed(0)
    state = {"conv.weight": torch.randn(64, 32, 3, 3), "conv.bias": torch.randn(64) + 1}
    for _ in range(3):
        made = repo.commit(state, step_size=0.5, share=share)
        lost = state["conv.weight"] - repo.checkout()["conv.weight"]
        form = forms(repo, made.id)["conv.weight"]
        assert isinstance(form, Lattice)
        assert lost.double().sum((1, 2, 3)).abs().max() <= 0.501 * step_value(form.step)
        again = repo.commit(state, step_size=0.5, share=share)
        assert bits(repo.checkout(again.id)) == bits(repo.checkout(made.id))
        check_bounds(repo, made.id, state, 0.5)
        state = {"conv.weight": state["conv.weight"] + 0.05, "conv.bias": state["conv.bias"] + 0.01}
