"""Bounded commits when something they lean on is dropped, gone or damaged."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from mvcs import Repository
from mvcs.errors import CorruptionError, LimitError, NotFoundError
from mvcs.objects import cbor
from mvcs.objects.chunk_grid import DTYPES, chunk_count
from mvcs.objects.commit import Commit
from mvcs.objects.forms import Absent, Constant, Form
from mvcs.objects.ids import Kind, object_id
from mvcs.objects.trees.structure import NodeTag
from mvcs.refs import HEADS
from mvcs.refs.refstore import RefChange
from mvcs.store.manifests import Manifest, WrittenCommit
from mvcs.store.packs.written_commit import LastEntry
from mvcs.store.writing.writer import ObjectWriter
from tests.repository.models import Run, bits, odd
from tests.repository.states import own_packs


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[Repository]:
    with Repository.init(tmp_path / "run") as repository:
        yield repository


def state(run: Run, number: int = 0) -> dict[str, object]:
    return run.step().state() | {"odd": odd(number)}


def packs(repo: Repository, rev: str) -> list[Path]:
    """The pack files that a commit wrote into its value layer."""
    own = own_packs(repo, rev)
    return [path for path in (repo.top / ".mvcs/packs").rglob("*.pack") if path.stem in own]


def spoil(path: Path, start: int, length: int = 64) -> None:
    content = bytearray(path.read_bytes())
    content[start : start + length] = bytes(length)
    path.chmod(0o644)
    path.write_bytes(content)


@pytest.mark.parametrize("moments", ["exact", "resume", "light"])
def test_without_kept_exact_layers_there_are_values_alone(repo: Repository, moments: str) -> None:
    run = Run(torch.optim.AdamW)
    kept = repo.commit(state(run), step_size=0.5, moments=moments)
    assert repo.restore(kept.id).layer == "exact"
    repo.config_set("retention.exact_layers", "0")
    with Repository.open(repo.top) as again:
        made = again.commit(state(run), step_size=0.5, moments=moments)
        assert (made.exactness, made.exact_bytes, made.exact_layer) == ("bounded", 0, "dropped")
        assert again.restore(made.id).lossy
        assert [commit.exact_layer for commit in again.log()] == ["dropped", "dropped"]
        with pytest.raises(NotFoundError, match="exact layer"):
            again.checkout(made.id, exact=True)
        exact = again.commit(state(run))
        assert bits(again.checkout(exact.id, exact=True)) == bits(again.checkout(exact.id))
        assert again.fsck().problems == []


def test_dropped_layers_leave_the_values(repo: Repository) -> None:
    run, values = Run(torch.optim.AdamW), {}
    for moments in ("resume", "light", "resume", "light"):
        made = repo.commit(state(run), step_size=0.5, moments=moments)
        values[made.id] = bits(repo.checkout(made.id))
    assert [commit.exact_layer for commit in repo.log()] == ["kept", "kept", "dropped", "dropped"]
    assert {rev: bits(repo.checkout(rev)) for rev in values} == values
    assert [repo.restore(rev).lossy for rev in values] == [True, True, False, False]
    assert repo.fsck().problems == []


def test_a_missing_pack_is_named_and_the_next_commit_stands_alone(repo: Repository) -> None:
    run = Run(torch.optim.AdamW)
    first = repo.commit(state(run), step_size=0.5)
    second = repo.commit(state(run), step_size=0.5)
    for path in packs(repo, first.id):
        path.unlink()
    with Repository.open(repo.top) as again:
        for rev in (first.id, second.id):
            with pytest.raises((CorruptionError, NotFoundError)) as caught:
                again.checkout(rev)
            assert caught.value.hint
        assert not again.fsck().ok
        now = state(run)
        made = again.commit(now, step_size=0.5)
        assert bits(again.checkout(made.id, exact=True)) == bits(now)


@pytest.mark.parametrize(
    "place",
    [pytest.param(place, marks=[] if place in (1, 4, 5, 7) else [pytest.mark.slow]) for place in range(8)],
)
def test_a_parent_damaged_anywhere_keeps_no_run_from_committing(repo: Repository, place: int) -> None:
    run = Run(torch.optim.AdamW)
    made = repo.commit(run.step().state(), step_size=0.5, moments=("resume", "light")[place % 2])
    (path,) = packs(repo, made.id)
    spoil(path, 64 + place * (path.stat().st_size // 10))
    for settings in ({"step_size": 0.5}, {"step_size": 0.4, "moments": "light"}, {"bins": 16}, {}):
        copy = repo.top.parent / "-".join(settings or "e")
        shutil.copytree(repo.top, copy)
        with Repository.open(copy) as again:
            now = run.step().state()
            after = again.commit(now, **settings)
            assert bits(again.checkout(after.id, exact=True)) == bits(now)
            again.checkout(after.id)
            assert not again.fsck().ok


@pytest.mark.parametrize("place", range(4))
def test_damage_of_what_a_state_was_restored_from_costs_the_check_alone(repo: Repository, place: int) -> None:
    torch.manual_seed(0)
    weight = {"w": torch.randn(300, 200), "v": torch.randn(200, 300)}
    first = repo.commit(weight, step_size=0.5)
    now = {name: value + 0.01 for name, value in repo.checkout(first.id).items()}
    (path,) = packs(repo, first.id)
    spoil(path, 200 + place * 10_000)
    with Repository.open(repo.top) as again:
        made = again.commit(now, step_size=0.5, restored_from=first.id)
        assert bits(again.checkout(made.id, exact=True)) == bits(now)
        assert not made.lineage_exact


NOWHERE = object_id(Kind.CHUNK, b"nowhere")


def forge(repo: Repository, branch: str, form: Form, *shapes: tuple[int, ...]) -> None:
    """Make a branch at a state of quantized tensors without codes."""
    session, dtype = repo._session, DTYPES["float32"]
    writer = ObjectWriter(session.store)
    # By hand, since a writer refuses the largest.
    fields = form.fields(lambda _: None)
    leaves = [
        [dtype.name, list(shape), form.number, fields, [], b"", [], [NOWHERE] * chunk_count(dtype, shape)]
        for shape in shapes
    ]
    root = [2, [[f"w{index}", [int(NodeTag.TENSOR), index, 0]] for index in range(len(shapes))]]
    tree = writer.put(Kind.TREE, cbor.dumps(["state", root, leaves]))
    content = Commit(tree, (), "eve", 0, "forged", exactness="bounded").encode()
    commit = writer.put(Kind.COMMIT, content)
    writer.finish(LastEntry((0, 0, 0, 0)))
    session.store.manifests.write(Manifest(WrittenCommit(commit, content), writer.placement))
    session.refs.update(HEADS, branch, None, RefChange(commit, "eve", "forged"))


@pytest.mark.parametrize("form", [Absent(), Constant(bytes(4))], ids=str)
def test_a_few_bytes_never_fill_the_memory(repo: Repository, form: Form) -> None:
    forge(repo, "small", form, (3, 5), (7,))
    assert [tuple(value.shape) for value in repo.checkout("small").values()] == [(3, 5), (7,)]
    forge(repo, "endless", form, (1 << 26, 1 << 11))
    forge(repo, "large", form, *[(index + 1, 1 << 34) for index in range(4)])
    forge(repo, "many", form, (1, 9), *[(index, 1 << 28) for index in range(2, 64)])
    with Repository.open(repo.top) as again:
        with pytest.raises(CorruptionError, match="has no codes"):
            again.show("endless")
        assert not again.fsck().ok
        with pytest.raises(CorruptionError, match="has no codes"):
            again.checkout("endless")
        for branch in ("large", "many"):
            with pytest.raises(LimitError, match="to be restored takes"):
                again.checkout(branch)
        with pytest.raises(LimitError, match="to be restored takes"):
            again.export("large", again.top / "large.safetensors")
        assert not list(again.top.glob("*large*"))
        assert len(again.checkout("many", tensors="w0")["w0"]) == 1


def test_what_readers_refuse_is_not_written(repo: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mvcs.commits.leaves.coded_tensor.MAX_BARE", 100)
    values = {"small": torch.ones(10, 10), "large": torch.ones(10, 11), "w": torch.randn(20, 20)}
    repo.commit(values, step_size=0.5)
    shown = {tensor.path: tensor for tensor in repo.show("HEAD").tensors}
    assert shown["small"].exact_id is not None
    assert shown["large"].exact_id is None
    assert bits(repo.checkout(exact=True)) == bits(values)
