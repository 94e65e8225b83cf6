"""A plan of a restore: its requests and bytes are those that the restore then has, counted at the store."""

import dataclasses
import gc
import json
import pathlib

import numpy as np
import pytest
from safetensors.numpy import save_file

from mvcs import Repository
from mvcs.errors import NotFoundError
from mvcs.local import Trust, find
from mvcs.repository.session import Session
from tests.store.faults import FaultyBackend

COMMITS = 5


def state(number):
    """Weights, moments that lean on one another, a frozen tensor, text long enough to be a blob."""
    random = np.random.default_rng(7)
    weights = [random.normal(size=(150, 160)).astype(np.float32) for _ in range(3)]
    moved = [
        each + np.float32(number / 200) * random.normal(size=each.shape).astype(np.float32)
        for each in weights
    ]
    moments = [np.float32(number + 1) / 9 * each for each in moved]
    return {
        "model": {f"{index}.weight": each for index, each in enumerate(moved)}
        | {"bias": np.ones(64, np.float32)},
        "optimizer": {
            "state": {
                index: {"exp_avg": each / 8, "exp_avg_sq": each * each + 1e-9}
                for index, each in enumerate(moments)
            },
            "param_groups": [{"lr": 0.1, "betas": (0.9, 0.999), "params": [0, 1, 2]}],
        },
        "frozen": weights[0],
        "tokens": "the same text again " * 500,
        "step": number,
    }


def tensors(number):
    noise = np.random.default_rng(3).normal(size=(2, 150, 160)).astype(np.float32)
    return {"a": noise[0] + np.float32(number / 100), "b": noise[1] * (1 + np.float32(number) / 50)}


@pytest.fixture(scope="module", autouse=True)
def _room():
    """Free what stores of other tests kept in memory, and leave all else out of the collections below."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", params=["bounded", "exact"])
def states(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("states")
    with Repository.init(folder) as repo:
        for number in range(COMMITS):
            repo.commit(state(number), step=number, step_size=0.5 if request.param == "bounded" else None)
    return folder


@pytest.fixture
def files(tmp_path):
    """A folder of a safetensors file, an npz file and a text, in five commits."""
    folder = tmp_path / "files"
    with Repository.init(folder) as repo:
        for number in range(COMMITS):
            run = folder / "run"
            run.mkdir(exist_ok=True)
            save_file(tensors(number), run / "model.safetensors", metadata={"step": str(number)})
            np.savez(run / "more.npz", **tensors(number + 1))
            (run / "notes.txt").write_text("a note " * 3000 + str(number // 3))
            repo.commit_files([run], message=f"{number}", step_size=0.5)
    return folder


one_history = pytest.mark.parametrize("states", ["bounded"], indirect=True)


def counted(folder, work):
    """Return requests and bytes of packs that a restore by a fresh process takes."""
    gc.collect()
    with Repository.open(folder) as repo:
        session = repo._session
        backend = FaultyBackend(session.place.backend)
        repo._session = Session(dataclasses.replace(session.place, backend=backend), session.progress)
        work(repo)
        reads = [size for name, _, size in backend.reads if name.endswith(".pack")]
        return len(reads), sum(reads)


def planned(folder, *arguments, **options):
    gc.collect()
    with Repository.open(folder) as repo:
        plan = repo.checkout_plan(*arguments, **options)
        return plan, (plan.requests, plan.read_bytes)


@pytest.mark.parametrize("rev", ["HEAD", "HEAD~2", "HEAD~4", "HEAD:optimizer"])
def test_a_state_is_read_as_planned(states, rev):
    plan, figures = planned(states, rev)
    assert figures == counted(states, lambda repo: repo.checkout(rev, numpy=True))
    assert plan.target is None
    assert plan.entries > 0
    assert plan.seconds > 0


def test_an_exact_layer_is_read_as_planned(states):
    plan, figures = planned(states, "HEAD", exact=True)
    assert figures == counted(states, lambda repo: repo.checkout("HEAD", exact=True, numpy=True))
    assert plan.layer == "exact"


@pytest.mark.parametrize("options", [{"tensors": "*exp_avg"}, {"strip_prefix": "model."}])
def test_some_tensors_are_read_as_planned(states, options):
    _, figures = planned(states, "HEAD~1", **options)
    assert figures == counted(states, lambda repo: repo.checkout("HEAD~1", numpy=True, **options))
    assert figures < planned(states, "HEAD~1")[1]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("all.pt", {}),
        ("all.npz", {}),
        ("some.safetensors", {"tensors": "*exp_avg*"}),
        ("model.safetensors", {"strip_prefix": "model."}),
    ],
)
def test_an_export_is_read_as_planned(states, tmp_path, name, options):
    target = tmp_path / name
    plan, figures = planned(states, "HEAD", target, **options)
    assert plan.target == str(target)
    assert not target.exists()
    assert figures == counted(states, lambda repo: repo.export("HEAD", target, **options))


def test_files_are_exported_as_planned(files, tmp_path):
    for rev, name in [
        ("HEAD~1", "out/"),
        ("HEAD:run/notes.txt", "notes.txt"),
        ("HEAD~2:run/more.npz", "more.safetensors"),
    ]:
        target = f"{tmp_path}/{name}"
        _, figures = planned(files, rev, target)
        assert figures == counted(files, lambda repo, rev=rev, target=target: repo.export(rev, target))


def test_files_in_place_are_read_as_planned(files):
    """What goes is looked through, to see that it is stored; what is right already is not read."""
    plan, figures = planned(files, "HEAD~1", in_place=True)
    assert plan.written == ["run/model.safetensors", "run/more.npz"]
    assert plan.unchanged == ["run/notes.txt"]
    assert plan.checked_bytes > 0
    before = (files / "run/model.safetensors").read_bytes()
    assert figures == counted(files, lambda repo: repo.checkout_files("HEAD~1"))
    assert (files / "run/model.safetensors").read_bytes() != before
    for name in plan.written:
        (files / name).unlink()
    _, figures = planned(files, "main", in_place=True)
    assert figures == counted(files, lambda repo: repo.checkout_files("main"))


def test_a_forced_checkout_looks_through_nothing(files):
    plan, figures = planned(files, "HEAD~3", in_place=True, force=True)
    assert plan.checked_bytes == 0
    assert figures == counted(files, lambda repo: repo.checkout_files("HEAD~3", force=True))


@one_history
def test_no_values_are_read_for_a_plan(states):
    with Repository.open(states) as repo:
        session = repo._session
        repo.checkout_plan("HEAD")  # the first one measures
        backend = FaultyBackend(session.place.backend)
        repo._session = Session(dataclasses.replace(session.place, backend=backend), session.progress)
        plan = repo.checkout_plan("HEAD")
        # Footers and trees, by the session and by the view that stands for a restore.
        assert sum(size for name, _, size in backend.reads if name.endswith(".pack")) < plan.read_bytes * 2
        assert backend.writes == []


@one_history
def test_rates_are_measured_once_and_anew_when_asked(states):
    record = pathlib.Path(states) / ".mvcs/local/rates.json"
    with Repository.open(states) as repo:
        first = repo.checkout_plan("HEAD").measured
        assert repo.checkout_plan("HEAD~1").measured == first
        again = repo.checkout_plan("HEAD", measure=True).measured
        assert again > first
        (known,) = json.loads(record.read_text().splitlines()[0]).values()
        assert set(known["decoded_bytes"]) >= {"rans_codes", "rans_delta", "rans_residual", "zstd"}
        assert all(rate > 0 for rate in known["decoded_bytes"].values())
        assert repo.show("HEAD").restore.seconds > 0
        assert repo.stats().dearest[0].seconds > 0


@one_history
@pytest.mark.parametrize("content", [b"{}", b'{"x": 3}', b"\xff"])
def test_a_damaged_record_of_rates_is_measured_anew(states, content):
    record = pathlib.Path(states) / ".mvcs/local/rates.json"
    with Repository.open(states) as repo:
        repo.checkout_plan("HEAD")
        url = repo._session.place.backend.url
        record.write_bytes(content.replace(b'"x"', json.dumps(url).encode()))
        assert repo.restore_figures("HEAD").seconds is None
        assert repo.checkout_plan("HEAD").seconds > 0
        assert repo.restore_figures("HEAD").seconds > 0


@one_history
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("read_bytes", 0),
        ("read_bytes", "fast"),
        ("range_seconds", -1),
        ("decoded_bytes", {}),
        ("decoded_bytes", {"nonesuch": 1.0}),
        ("time", "now"),
        ("time", -1),
    ],
)
def test_impossible_rates_count_as_none(states, name, value):
    from mvcs.local import LocalRecords, known_rates

    local = pathlib.Path(states) / ".mvcs"
    with Repository.open(states) as repo:
        repo.checkout_plan("HEAD")
        url = repo._session.place.backend.url
    with LocalRecords(local).change("rates") as record:
        kept = dict(record[url])
        record[url][name] = value
    assert known_rates(local, url) is None
    with LocalRecords(local).change("rates") as record:
        record[url] = kept
    assert known_rates(local, url) is not None


@one_history
def test_a_bare_store_is_planned_too(states):
    store = pathlib.Path(states) / ".mvcs"
    place = find(str(store), None, Trust.of_user())
    with Repository(dataclasses.replace(place, top=None, local=None)) as bare:
        assert bare.checkout_plan("main").requests > 0


def test_what_cannot_be_restored_cannot_be_planned(states):
    with Repository.open(states) as repo:
        with pytest.raises(NotFoundError):
            repo.checkout_plan("nonesuch")
        with pytest.raises(NotFoundError, match="no tensor"):
            repo.checkout_plan("HEAD", tensors="nothing.*")
        if repo.head().bounded:
            with pytest.raises(NotFoundError, match="exact layer"):
                repo.checkout_plan("HEAD~4", exact=True)
