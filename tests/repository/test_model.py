"""A repository does what plain dictionaries of histories would do, whatever is done in whatever order."""

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hypothesis import assume, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from mvcs import Repository
from mvcs.errors import NotFoundError

DTYPES = [
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float64,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.complex64,
    torch.complex128,
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
]
SHAPES = [(), (0,), (3, 0, 2), (1,), (7,), (4, 5), (33, 40), (2, 3, 4), (1, 1, 1, 2)]
FLOATS = [0.0, -0.0, float("nan"), float("inf"), float("-inf"), 1e-45, 5e-324, 1.0]


def bits(tensor: torch.Tensor) -> bytes:
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


@st.composite
def tensors(draw: st.DrawFn) -> torch.Tensor:
    """A tensor of any dtype and shape, of random bits: NaN payloads, infinities, subnormals and all."""
    dtype, shape = draw(st.sampled_from(DTYPES)), draw(st.sampled_from(SHAPES))
    seed = draw(st.integers(0, 9))
    count = int(np.prod(shape, dtype=np.int64))
    if dtype is torch.bool:
        return torch.from_numpy(np.random.default_rng(seed).integers(0, 2, count).astype(bool)).reshape(shape)
    raw = np.random.default_rng(seed).bytes(count * dtype.itemsize)
    if draw(st.booleans()) and dtype.is_floating_point and count:
        values = np.resize(np.array(FLOATS), count) * (seed + 1)
        return torch.from_numpy(values).to(dtype).reshape(shape)
    return (
        torch.frombuffer(bytearray(raw) or bytearray(1), dtype=torch.uint8)[: len(raw)]
        .view(dtype)
        .reshape(shape)
    )


PRIMITIVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**130), 2**130),
    st.floats(),
    st.text(max_size=4),
    st.binary(max_size=4),
)
KEYS = st.one_of(st.sampled_from(["w", "b", "m", "step"]), st.integers(-3, 3), st.booleans())


@st.composite
def states(draw: st.DrawFn) -> dict[Any, Any]:
    """A nested state, sometimes with a tensor that is in it twice."""
    nested = st.recursive(
        st.one_of(tensors(), PRIMITIVES),
        lambda inner: st.one_of(
            st.dictionaries(KEYS, inner, max_size=3), st.lists(inner, max_size=3), st.tuples(inner, inner)
        ),
        max_leaves=6,
    )
    state = draw(st.dictionaries(KEYS, nested, min_size=1, max_size=3))
    if draw(st.booleans()):
        tied = draw(tensors())
        state |= {"tied": [tied, tied]}
    return state


def plain(value: Any) -> Any:
    """What two states are compared by: types, order and bits."""
    if isinstance(value, torch.Tensor):
        return ("tensor", str(value.dtype), tuple(value.shape), bits(value))
    if isinstance(value, dict):
        return ("dict", [(type(key).__name__, key, plain(item)) for key, item in value.items()])
    if isinstance(value, list | tuple):
        return (type(value).__name__, [plain(item) for item in value])
    if isinstance(value, float):
        return ("float", np.float64(value).tobytes())
    return (type(value).__name__, value)


class Model(RuleBasedStateMachine):
    """Histories as dictionaries beside the real thing.

    What is modelled: for each commit its parents, what it restores and its metrics; names; where HEAD is.
    """

    commits = Bundle("commits")
    names = Bundle("names")

    def __init__(self) -> None:
        super().__init__()
        torch.set_num_threads(1)
        self.folder = Path(tempfile.mkdtemp(prefix="mvcs-model-"))
        self.repo = Repository.init(self.folder / "work")
        self.repo.config_set("compaction.max_depth", "3")
        self.repo.add_remote("origin", str(self.folder / "far"))
        self.parents: dict[str, list[str]] = {}
        self.exact: dict[str, Any] = {}
        self.values: dict[str, Any] = {}
        self.metrics: dict[str, dict[str, float]] = {}
        self.branches: dict[str, str] = {}
        self.tags: dict[str, str] = {}
        self.far: dict[str, str] = {}
        self.dropped: set[str] = set()
        self.current = "main"

    def teardown(self) -> None:
        report = self.repo.fsck()
        assert report.problems == []
        told = ("were dropped on purpose", "left of commits that were stored again")
        assert [note for note in report.notes if not any(each in note for each in told)] == []
        self.repo.close()
        if (self.folder / "far").exists():
            with Repository.open(self.folder / "far") as far:
                assert far.fsck().problems == []
        shutil.rmtree(self.folder)

    def record(self, info: Any, state: Any) -> str:
        before = self.branches.get(self.current)
        assert info.parents == ([before] if before else [])
        assert info.metrics == {}
        self.parents[info.id] = info.parents
        self.exact[info.id] = plain(state)
        self.values[info.id] = plain(self.repo.checkout(info.id))
        self.metrics[info.id] = {}
        self.branches[self.current] = info.id
        return info.id

    @initialize(target=commits, state=states())
    def first(self, state: dict[Any, Any]) -> str:
        return self.record(self.repo.commit(state, message="first"), state)

    @rule(target=commits, state=states())
    def commit_exact(self, state: dict[Any, Any]) -> str:
        info = self.repo.commit(state)
        assert (info.exactness, info.exact_layer) == ("exact", "same")
        commit = self.record(info, state)
        assert self.values[commit] == self.exact[commit]
        return commit

    @rule(target=commits, state=states(), bins=st.sampled_from([2, 16, 253]))
    def commit_bounded(self, state: dict[Any, Any], bins: int) -> str:
        info = self.repo.commit(state, bins=bins)
        restored = self.repo.restore(info.id)
        assert plain(restored.state) == plain(state)
        assert restored.layer == "exact"
        return self.record(info, state)

    @rule(target=commits, before=commits, seed=st.integers(0, 5), bins=st.sampled_from([None, 16]))
    def commit_a_step_on(self, before: str, seed: int, bins: int | None) -> str:
        """Training: the state of a commit, moved a little."""
        generator = torch.Generator().manual_seed(seed)
        weight = torch.randn(24, 64, generator=torch.Generator().manual_seed(0))
        state = {"w": weight + 0.01 * torch.randn(24, 64, generator=generator), "from": before}
        return self.record(self.repo.commit(state, bins=bins), state)

    @rule(target=names, name=st.sampled_from(["a", "b", "A", "x/y", "émile"]), commit=commits)
    def branch(self, name: str, commit: str) -> Any:
        if name in self.branches:
            return multiple()
        self.repo.create_branch(name, commit)
        self.branches[name] = commit
        return name

    @rule(name=consumes(names))
    def delete_branch(self, name: str) -> None:
        assume(name != self.current)
        self.repo.delete_branch(name, force=True)
        del self.branches[name]

    @rule(name=names)
    def switch(self, name: str) -> None:
        assume(name in self.branches)
        self.repo.switch(name)
        self.current = name

    @rule()
    def switch_back(self) -> None:
        self.repo.switch("main")
        self.current = "main"

    @rule(name=st.sampled_from(["v1", "V1", "v2"]), commit=commits)
    def tag(self, name: str, commit: str) -> None:
        if name not in self.tags:
            self.repo.create_tag(name, commit, "said")
            self.tags[name] = commit

    @rule(commit=commits, value=st.floats(allow_nan=False), name=st.sampled_from(["loss", "acc"]))
    def note(self, commit: str, value: float, name: str) -> None:
        self.repo.note(commit, {name: value})
        self.metrics[commit][name] = value

    @rule(depth=st.sampled_from([0, 1, 3]), archive=st.booleans())
    def compact(self, depth: int, archive: bool) -> None:
        if archive:
            self.repo.compact(for_archive=True)
        else:
            self.repo.compact(max_depth=depth)

    @rule()
    def collect(self) -> None:
        self.repo.gc(grace_days=0, wait_days=0, execute=True)

    @rule(last=st.sampled_from([1, 2]))
    def retain(self, last: int) -> None:
        """Only what no branch, tag or HEAD stands on may be dropped."""
        self.repo.set_retention(last=last, tagged=True, force=True)
        self.repo.apply_retention(force=True)
        dropped = {info.id for info in self.repo.log(all_branches=True) if info.data_dropped}
        assert (dropped - self.dropped).isdisjoint([*self.branches.values(), *self.tags.values()])
        self.dropped |= dropped

    @rule(commit=commits)
    def checkout(self, commit: str) -> None:
        if commit in self.dropped:
            # Nothing may have collected them yet, or another store has brought them back.
            with suppress(NotFoundError):
                assert plain(self.repo.checkout(commit)) == self.values[commit]
            return
        assert plain(self.repo.checkout(commit)) == self.values[commit]
        restored = self.repo.restore(commit)
        expected = self.exact if restored.layer == "exact" else self.values
        assert plain(restored.state) == expected[commit]
        assert restored.lossy is (restored.layer == "value")

    @rule()
    def reopen(self) -> None:
        self.repo.close()
        self.repo = Repository.open(self.folder / "work")

    @rule()
    def lose_the_index(self) -> None:
        self.repo.close()
        (self.folder / "work/.mvcs/lineage.sqlite").unlink(missing_ok=True)
        self.repo = Repository.open(self.folder / "work")

    @rule()
    def push(self) -> None:
        report = self.repo.push(all_branches=True, tags=True, force=True)
        self.far |= self.branches
        moved = {update.name: update.new for update in report.updated}
        assert moved.items() <= (self.far | self.tags).items()
        assert self.repo.push(all_branches=True, tags=True).updated == []

    @rule()
    def clone(self) -> None:
        assume(self.far)
        shutil.rmtree(self.folder / "copy", ignore_errors=True)
        with Repository.clone(str(self.folder / "far"), self.folder / "copy") as copy:
            assert {branch.name: branch.commit for branch in copy.branches()} == self.far
            for commit in set(self.far.values()):
                assert plain(copy.checkout(commit)) == self.values[commit]
                assert [info.id for info in copy.log(commit)] == self.history(commit)
            assert copy.fsck().problems == []

    def history(self, commit: str) -> list[str]:
        found, queue = [], [commit]
        while queue:
            found.append(queue[0])
            queue = self.parents[queue[0]]
        return found

    @invariant()
    def names_and_log_agree(self) -> None:
        if not self.branches:
            return
        assert {branch.name: branch.commit for branch in self.repo.branches()} == self.branches
        assert {tag.name: tag.commit for tag in self.repo.tags()} == self.tags
        assert self.repo.branch == self.current
        log = list(self.repo.log())
        assert [info.id for info in log] == self.history(self.branches[self.current])
        assert {info.id: info.metrics for info in log} == {info.id: self.metrics[info.id] for info in log}


TestRepository = Model.TestCase
TestRepository.settings = settings(max_examples=14, stateful_step_count=14)
