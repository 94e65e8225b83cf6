"""Methods on a run of one's own: what a ledger holds, what a killed comparison continues, what is refused."""

import itertools
import json
import sys
import time

import numpy as np
import pytest
import torch

from mvcs.bench.bench_run import MethodsReport, names_of, run_methods
from mvcs.bench.comparison import Terms
from mvcs.bench.judges import FunctionJudge, TaskJudge
from mvcs.bench.ledger import Ledger
from mvcs.bench.methods.qd import QD
from mvcs.bench.results import ComparisonReport
from mvcs.bench.runs.recorded_state import RecordedRun
from mvcs.bench.runs.run_maker import make_run
from mvcs.errors import ConflictError, EvaluationError, FileFormatError, NotFoundError, UsageError
from mvcs.progress import SILENT, Silent
from mvcs.repository import Repository
from tests.bench.runs import TASKS, Stop, StopAfter

STEPS = (10, 20, 30, 40)


def loss(state, sample):
    """The squared error of a linear model, batch by batch; samples share no example."""
    place = ("search", "verify", "report").index(sample)
    drawn = torch.Generator().manual_seed(place)
    inputs = torch.randn(8, 16, 32, generator=drawn)
    truth = torch.linspace(-1, 1, 32 * 8).reshape(8, 32)
    for batch in inputs:
        wrong = batch @ state["model"]["head.weight"].T - batch @ truth.T
        yield float(wrong.square().sum()), float(len(batch))


def states(count=4, moments=False):
    """States that come nearer to the truth from step to step."""
    drawn = torch.Generator().manual_seed(1)
    weight = torch.linspace(-1, 1, 32 * 8).reshape(8, 32) + torch.randn(8, 32, generator=drawn)
    for _ in range(count):
        weight = weight * 0.8 + torch.linspace(-1, 1, 32 * 8).reshape(8, 32) * 0.2
        state = {"model": {"head.weight": weight, "head.bias": torch.zeros(8)}, "note": "as it was"}
        if moments:
            own = {"step": torch.tensor(3.0), "exp_avg": weight * 0.01, "exp_avg_sq": weight.square() * 1e-4}
            groups = [{"lr": 0.1, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0, "params": [0]}]
            state["optimizer"] = {"state": {0: own}, "param_groups": groups}
        yield state


def saved(folder, found):
    folder.mkdir()
    for step, state in zip(STEPS, found, strict=False):
        torch.save(state, folder / f"step_{step}.pt")
    return folder


@pytest.fixture
def recorded(tmp_path):
    return RecordedRun.of_folder(saved(tmp_path / "run", states()))


class Notes(Silent):
    """Progress that keeps what is said."""

    def __init__(self):
        self.said = []

    def note(self, message):
        self.said.append(message)


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """A run of a task with two optimizers, and what judges it. To be looked at."""
    folder = tmp_path_factory.mktemp("learned")
    task = TASKS["muon"](folder / "data")
    make_run(task, folder / "run", steps=4, every=2, seed=0, progress=SILENT)
    return RecordedRun.of_folder(folder / "run"), TaskJudge(task)


def compared(run, out, names="qd", function=loss, progress=SILENT, **terms):
    judge = FunctionJudge(function, "validate:loss")
    wanted = Terms(**{"max_degradation": 0.02} | terms)
    return run_methods(run, judge, names_of(names), out, wanted, progress=progress)


def files(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.payload")}


def only(report):
    (run,) = report.runs
    (result,) = run.results
    return result


def test_sizes_are_those_of_the_payloads(recorded, tmp_path):
    result = only(compared(recorded, tmp_path / "out"))
    stored = {name[-17:-8]: len(payload) for name, payload in files(tmp_path / "out").items()}
    assert {f"{one.step:09}": one.stored for one in result.records} == stored
    assert result.weights == pytest.approx(4 * 8 * 32 * 4 / sum(stored.values()))


def test_what_methods_do_not_code_is_counted_in_the_whole(recorded, tmp_path):
    first = only(compared(recorded, tmp_path / "out")).records[0]
    assert first.everything == first.stored + first.by_class["rest"]
    assert first.by_class["rest"] > 0


def test_chosen_settings_keep_the_bound_on_the_search_sample(recorded, tmp_path):
    found = only(compared(recorded, tmp_path / "out"))
    assert all(one.kept and one.search.degradation <= 0.02 for one in found.records)


@pytest.mark.parametrize("place", range(3))
def test_a_comparison_that_ended_early_continues_with_the_same_bytes(recorded, tmp_path, place):
    compared(recorded, tmp_path / "whole")
    with pytest.raises(Stop):
        compared(recorded, tmp_path / "out", progress=StopAfter(place))
    assert len(files(tmp_path / "out")) == place + 1
    result = only(compared(recorded, tmp_path / "out"))
    assert len(result.records) == len(STEPS)
    assert files(tmp_path / "out") == files(tmp_path / "whole")


@pytest.mark.parametrize("suffix", [".json", ".payload"])
def test_a_torn_record_is_measured_again(recorded, tmp_path, suffix):
    compared(recorded, tmp_path / "out")
    before = files(tmp_path / "out")
    (path,) = (tmp_path / "out").rglob(f"step_000000020{suffix}")
    path.write_bytes(path.read_bytes()[:-5])
    assert len(only(compared(recorded, tmp_path / "out")).records) == len(STEPS)
    assert files(tmp_path / "out") == before


def test_nothing_is_measured_twice(recorded, tmp_path):
    first = only(compared(recorded, tmp_path / "out"))
    assert only(compared(recorded, tmp_path / "out")) == first


def lines_of(notes, name):
    return [line for line in notes.said if line.startswith(f"{name}, step ")]


@pytest.mark.parametrize("name", ["qd", "lattice"])
def test_what_is_read_from_the_ledger_is_said_to_be(recorded, tmp_path, name):
    first, again = Notes(), Notes()
    for notes in (first, again):
        compared(recorded, tmp_path / "out", name, progress=notes)
    assert lines_of(again, name) == [f"{line}; from the ledger" for line in lines_of(first, name)]
    assert len(lines_of(first, name)) == len(STEPS)


def test_mvcs_itself_says_by_a_task_what_it_does(learned, tmp_path):
    first, again = Notes(), Notes()
    for notes in (first, again):
        run_methods(*learned, ["lattice"], tmp_path, Terms(0.05), progress=notes)
    assert [line.split(":")[0] for line in lines_of(first, "lattice")] == [
        f"lattice, step {step}" for step in (0, 2, 4)
    ]
    assert lines_of(again, "lattice") == [f"{line}; from the ledger" for line in lines_of(first, "lattice")]


def test_a_run_says_first_what_it_may_take_on_disk(recorded, tmp_path):
    notes = Notes()
    compared(recorded, tmp_path / "out", "qd,lattice", progress=notes)
    assert notes.said[0].startswith("payloads and commits will take at most about 8.3 kB in")


def test_each_weight_is_scored_by_the_moments_of_its_own_optimizer(learned):
    last = list(learned[0].readers.values())[-1]()
    assert {"momentum_buffer", "exp_avg"} <= last.moments.keys()
    assert last.scores.keys() == last.weights.keys()


def test_a_changed_method_is_measured_again(recorded, tmp_path, monkeypatch):
    compared(recorded, tmp_path / "out")
    monkeypatch.setattr(QD, "version", 2)
    (run,) = compared(recorded, tmp_path / "out").runs
    assert sorted(one.version for one in run.results) == [1, 2]


def test_another_run_gets_results_of_its_own(recorded, tmp_path):
    compared(recorded, tmp_path / "out")
    other = RecordedRun.of_folder(saved(tmp_path / "other", states(3)))
    runs = compared(other, tmp_path / "out").runs
    assert sorted(len(run.results[0].records) for run in runs) == [3, 4]


@pytest.mark.parametrize(
    ("name", "continued"), [("qd:4-8", [0, 1, 2, 3]), ("mvcs-exact", [0, 1, 2, 3]), ("zstd-3", [3])]
)
def test_restoring_takes_the_payloads_that_a_checkpoint_continues(recorded, tmp_path, name, continued):
    result = only(compared(recorded, tmp_path / "out", name))
    assert result.restore[-1] == pytest.approx(sum(result.records[place].decode for place in continued))


def test_a_restored_state_may_be_infinitely_worse(recorded, tmp_path):
    compared(recorded, tmp_path / "out", "qd:4-8")
    (path,) = (tmp_path / "out").rglob("step_000000040.json")
    row = json.loads(path.read_text())
    path.write_text(json.dumps(row | {"verify": row["verify"] | {"degradation": "inf"}}))
    assert only(ComparisonReport.of(tmp_path / "out")).worst == float("inf")


def test_fixed_settings_are_not_searched(recorded, tmp_path):
    result = only(compared(recorded, tmp_path / "out", "qd:4-8"))
    assert (result.bound, result.tested) == (None, 0)
    assert {tuple(one.setting.values()) for one in result.records} == {(4, 8)}


def test_a_method_without_settings_is_measured_once_for_all_bounds(recorded, tmp_path):
    compared(recorded, tmp_path / "out", "zstd-3")
    assert only(compared(recorded, tmp_path / "out", "zstd-3", max_degradation=0.1)).bound is None


def test_a_bound_that_nothing_keeps_is_said_and_the_finest_setting_stored(recorded, tmp_path):
    result = only(compared(recorded, tmp_path / "out", max_degradation=1e-12))
    assert result.missed == len(STEPS)
    assert {tuple(one.setting.values()) for one in result.records} == {(8, 8)}


def test_moments_need_not_be_there_before_the_first_step(tmp_path):
    found = [*states(1), *states(4, moments=True)][:4]
    run = RecordedRun.of_folder(saved(tmp_path / "run", found))
    result = only(compared(run, tmp_path / "out", "excp:published"))
    assert [one.step for one in result.records] == list(STEPS)
    assert all(one.by_class["exp_avg"] > 0 for one in result.records[1:])


def test_mvcs_itself_is_measured_by_the_same_function(recorded, tmp_path):
    result = only(compared(recorded, tmp_path / "out", "lattice"))
    assert [one.step for one in result.records] == list(STEPS)
    assert all(one.verify.degradation < 0.1 for one in result.records)
    assert only(compared(recorded, tmp_path / "out", "lattice")) == result


def test_encoding_of_mvcs_itself_is_the_commit_without_the_search(recorded, tmp_path):
    def slow(state, sample):
        began = time.process_time()
        while time.process_time() - began < 0.01:
            pass
        yield from loss(state, sample)

    for one in only(compared(recorded, tmp_path / "out", "lattice", slow)).records:
        assert 0 < one.encode <= one.searched - 0.01 * one.tested


def test_a_result_says_how_many_checkpoints_are_not_measured(recorded, tmp_path):
    compared(recorded, tmp_path / "out")
    next((tmp_path / "out").rglob("step_*40.json")).unlink()
    result = only(ComparisonReport.of(tmp_path / "out"))
    assert (result.checkpoints, result.unmeasured) == (3, 1)


def test_a_method_that_was_begun_and_not_measured_is_named(recorded, tmp_path):
    compared(recorded, tmp_path / "out")
    for path in (tmp_path / "out").rglob("step_*.json"):
        path.unlink()
    (run,) = ComparisonReport.of(tmp_path / "out").runs
    assert run.skipped == {"qd": "no checkpoint is measured yet at the bound 0.02"}


def test_the_list_of_methods_says_what_mvcs_itself_keeps_of_moments():
    assert "moments" in MethodsReport.of_all().methods[0].differs


def test_commits_of_a_repository_are_checkpoints(recorded, tmp_path):
    with Repository.init(tmp_path / "repo") as repository:
        for step, state in zip(STEPS, states(), strict=True):
            repository.commit(state, step=step)
        found = RecordedRun.of_commits(repository, "HEAD")
        ours = only(compared(found, tmp_path / "out"))
    theirs = only(compared(recorded, tmp_path / "files"))
    assert [one.stored for one in ours.records] == [one.stored for one in theirs.records]


def test_a_range_leaves_out_what_its_beginning_has(tmp_path):
    with Repository.init(tmp_path / "repo") as repository:
        for step, state in zip(STEPS, states(), strict=True):
            repository.commit(state, step=step)
        assert list(RecordedRun.of_commits(repository, "HEAD~2..HEAD").readers) == [30, 40]


def test_commits_of_one_file_give_its_content(recorded, tmp_path):
    with Repository.init(tmp_path / "repo") as repository:
        for step, state in zip(STEPS, states(), strict=True):
            torch.save(state, tmp_path / "repo/model.pt")
            repository.commit_files([tmp_path / "repo/model.pt"], message="again", step=step)
        ours = only(compared(RecordedRun.of_commits(repository, "HEAD"), tmp_path / "out"))
    theirs = only(compared(recorded, tmp_path / "files"))
    assert [one.stored for one in ours.records] == [one.stored for one in theirs.records]


def test_another_evaluation_of_the_same_name_is_refused(recorded, tmp_path):
    compared(recorded, tmp_path / "out")

    def other(state, sample):
        return ((2 * total, count) for total, count in loss(state, sample))

    with pytest.raises(ConflictError, match="is not the one"):
        compared(recorded, tmp_path / "out", function=other)


def test_an_evaluation_that_does_not_look_at_weights_is_refused(recorded, tmp_path):
    with pytest.raises(UsageError, match="quite other weights"):
        compared(recorded, tmp_path / "out", function=lambda _: 1.25)


def test_an_evaluation_that_fails_on_the_way_names_the_step(tmp_path):
    def failing(state, sample):
        if state.get("at") == 30:
            raise ZeroDivisionError("no data")
        return loss(state, sample)

    found = list(states())
    found[2]["at"] = 30
    with pytest.raises(EvaluationError, match=r"step 30: .*no data"):
        compared(RecordedRun.of_folder(saved(tmp_path / "run", found)), tmp_path / "out", function=failing)


def test_one_checkpoint_of_many_is_too_few(tmp_path):
    with pytest.raises(NotFoundError, match="two are needed"):
        RecordedRun.of_folder(saved(tmp_path / "run", states()), every=9)


def test_commits_without_a_step_are_refused(tmp_path):
    with Repository.init(tmp_path / "repo") as repository:
        for state in states(2):
            repository.commit(state)
        with pytest.raises(UsageError, match="step"):
            RecordedRun.of_commits(repository, "HEAD")


def test_an_evaluator_that_fails_is_named_with_the_line(recorded, tmp_path):
    def broken(state):
        raise ZeroDivisionError(f"no data for {sorted(state)}")

    with pytest.raises(EvaluationError, match=r"no data.*test_comparison\.py"):
        compared(recorded, tmp_path / "out", function=broken)


def test_an_evaluator_that_is_random_is_refused(recorded, tmp_path):
    drawn = itertools.count()
    with pytest.raises(UsageError, match="evaluat"):
        compared(recorded, tmp_path / "out", function=lambda _: float(next(drawn)) + 1)


def test_a_method_that_needs_moments_is_skipped_without_them(recorded, tmp_path):
    (run,) = compared(recorded, tmp_path / "out", "qd,excp").runs
    assert [one.method for one in run.results] == ["qd"]
    assert "moments" in run.skipped["excp"]


def test_a_method_whose_package_is_not_installed_is_skipped(recorded, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "bitarray", None)
    (run,) = compared(recorded, tmp_path / "out", "qd,uniform,lc,inshrinkerator").runs
    assert [one.method for one in run.results] == ["qd"]
    assert all("pip install 'mvcs[bench]'" in why for why in run.skipped.values())
    assert sorted(run.skipped) == ["inshrinkerator", "lc", "uniform"]


def test_a_method_that_was_skipped_once_is_measured_when_it_can_be(recorded, tmp_path):
    with pytest.MonkeyPatch.context() as without:
        without.setitem(sys.modules, "bitarray", None)
        compared(recorded, tmp_path / "out", "uniform")
    (run,) = compared(recorded, tmp_path / "out", "uniform").runs
    assert [one.method for one in run.results] == ["uniform"]
    assert run.skipped == {}


def test_parameters_that_are_added_or_resized_on_the_way_are_coded(tmp_path):
    found = list(states())
    found[2]["model"]["more.weight"] = torch.ones(4, 4)
    found[3]["model"]["more.weight"] = torch.ones(6, 4)
    run = RecordedRun.of_folder(saved(tmp_path / "run", found))
    assert len(only(compared(run, tmp_path / "out")).records) == len(STEPS)


def test_a_weight_that_is_not_finite_comes_back(tmp_path):
    found = list(states())
    found[1]["model"]["spare.weight"] = torch.full((2, 2), float("nan"))
    run = RecordedRun.of_folder(saved(tmp_path / "run", found))
    record = only(compared(run, tmp_path / "out")).records[1]
    assert np.isfinite(record.verify.degradation)


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("inshrinkeratr", "inshrinkerator"),
        ("qd:4-9", "qd:4-8"),
        ("QD", "'qd'"),
        ("Lattise", "lattice"),
        ("zip", ""),
    ],
)
def test_unknown_methods_are_refused(asked, meant):
    with pytest.raises(UsageError, match="there is no method") as refused:
        names_of(asked)
    assert meant in (refused.value.hint or "")


@pytest.mark.parametrize(("task", "fits"), [("finetune", True), ("gpt", False), (None, True)])
def test_all_methods_are_those_for_the_run(task, fits):
    assert ("ultradelta" in names_of("all", task)) == fits


def test_a_damaged_description_is_named(recorded, tmp_path):
    compared(recorded, tmp_path / "out")
    (path,) = (tmp_path / "out").rglob("series.json")
    path.write_text("[]")
    with pytest.raises(FileFormatError, match="is damaged"):
        ComparisonReport.of(tmp_path / "out")


def test_an_evaluation_of_many_batches_is_kept(recorded, tmp_path):
    def many(state, sample):
        yield from loss(state, sample)
        yield from ((0.0, 1.0) for _ in range(6_000))

    compared(recorded, tmp_path / "out", function=many)
    (path,) = (tmp_path / "out").rglob("originals.json")
    assert path.stat().st_size > 1 << 20
    assert only(compared(recorded, tmp_path / "out", function=many)).checkpoints == len(STEPS)
    assert len(Ledger.all_in(tmp_path / "out")[0].known("originals")) == 3 * len(STEPS)


def test_an_empty_folder_has_no_results(tmp_path):
    with pytest.raises(NotFoundError, match="no results"):
        Ledger.all_in(tmp_path)
