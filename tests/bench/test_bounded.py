"""A replayed run is committed by the hook, judged on data the search did not see, and taken up again."""

import json
import shutil
import statistics
from dataclasses import replace

import numpy as np
import pytest
import torch

from mvcs.bench.bounded import BoundedTerms, ConstantStretch, Judged
from mvcs.bench.data.text import held_out_text
from mvcs.bench.history import CommittedStep
from mvcs.bench.replay import replay_run
from mvcs.bench.runs.run_maker import make_run
from mvcs.bench.runs.tasks import Constant, everything, samples_of
from mvcs.errors import ConflictError, FileFormatError, NotFoundError, UsageError
from mvcs.progress import SILENT, Silent
from mvcs.repository import Repository
from mvcs.ui.bench import bounded
from mvcs.ui.text import Screen
from tests.bench.runs import TASKS, Stop, tiny_gpt


def trained(name, folder):
    """Return a task and a trained run of four checkpoints."""
    task = TASKS[name](folder / "data")
    make_run(task, folder / "run", steps=6, every=2, seed=0, progress=SILENT)
    return task, folder / "run"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return trained("gpt", tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module", params=TASKS)
def each_run(request, tmp_path_factory):
    return trained(request.param, tmp_path_factory.mktemp("each"))


def replayed(run, out=None, progress=SILENT, every=None, **options):
    task, folder = run
    terms = BoundedTerms(**{"max_degradation": 0.05} | options)
    return replay_run(task, folder, out, terms, every=every, progress=progress)


@pytest.fixture(scope="module")
def whole(run, tmp_path_factory):
    """The folder and the report of a run whose checkpoints were all replayed."""
    out = tmp_path_factory.mktemp("whole")
    return out, replayed(run, out)


@pytest.fixture(scope="module")
def every_third(run, tmp_path_factory):
    """The same of two checkpoints."""
    out = tmp_path_factory.mktemp("third")
    return out, replayed(run, out, every=3)


class StopAtNote(Silent):
    """Progress that ends a run after the first commit was told."""

    def note(self, _):
        raise Stop


def test_every_checkpoint_is_committed_and_judged(whole):
    _, report = whole
    assert [one.size.step for one in report.commits] == [0, 2, 4, 6]
    with Repository.open(report.repository) as repository:
        assert [one.step for one in repository.log()] == [6, 4, 2, 0]
        assert [one.stored_bytes for one in repository.log()][::-1] == [
            one.size.stored_bytes for one in report.commits
        ]
    assert report.history.weights == pytest.approx(
        sum(one.size.weights for one in report.commits)
        / sum(one.size.weights_stored for one in report.commits)
    )
    assert report.worst_verify == max(one.verify.degradation for one in report.commits)
    assert all(one.spent.codec_seconds > 0 < one.spent.search_seconds for one in report.commits)
    assert all(one.spent.evaluations > 1 for one in report.commits)
    assert all((one.search is None) == (one.exactness == "exact") for one in report.commits)
    assert all(one.candidates >= 1 for one in report.commits)


SOME = [
    name if number % 4 == 0 else pytest.param(name, marks=pytest.mark.slow)
    for number, name in enumerate(TASKS)
]


@pytest.mark.parametrize("name", SOME)
def test_what_is_judged_is_what_a_reader_restores(name, request, tmp_path):
    if name == "gpt":
        (task, folder), (_, report) = request.getfixturevalue("run"), request.getfixturevalue("whole")
    else:
        task, folder = trained(name, tmp_path)
        report = replayed((task, folder), tmp_path / "out")
    original, restored = task.model(), task.model()
    original.load_state_dict(torch.load(folder / "step_000006.pt", weights_only=True)["model"])
    with Repository.open(report.repository) as repository:
        restored.load_state_dict(repository.checkout("HEAD")["model"])
    sample = samples_of(task).verify
    before, after = (sample.metrics(model)["loss"] for model in (original, restored))
    assert report.commits[-1].verify.degradation == pytest.approx((after - before) / before, abs=1e-6)


def test_a_killed_run_goes_on_where_it_was(run, whole, tmp_path):
    _, undisturbed = whole
    with pytest.raises(Stop):
        replayed(run, tmp_path / "parts", progress=StopAtNote())
    parts = replayed(run, tmp_path / "parts")
    # The search learns anew, so what comes after is not the same to the byte.
    first, before = parts.commits[0], undisturbed.commits[0]
    assert (first.size.weights_stored, first.verify) == (before.size.weights_stored, before.verify)
    assert [one.size.step for one in parts.commits] == [one.size.step for one in undisturbed.commits]
    assert all(one.search.degradation <= 0.05 for one in parts.commits if one.search)


def test_moments_are_kept_by_optimizer_and_bound_where_that_is_asked(run):
    near, far = (replayed(run, every=3, moments="auto", max_degradation=bound) for bound in (0.01, 0.001))
    assert near.commits[-1].quantizer["first"] == "carried"  # light
    assert far.commits[-1].quantizer["first"] == "sign"  # resume


def test_weights_count_in_the_types_that_they_have(tmp_path):
    task, folder = trained("bf16-pure", tmp_path)
    found = replayed((task, folder), every=3).commits[0].size.weights
    wide = [parameter for parameter in task.model().parameters() if parameter.dim() > 1]
    assert {parameter.dtype for parameter in wide} == {torch.bfloat16}
    assert found == sum(2 * parameter.numel() for parameter in wide)


def test_the_first_commit_takes_the_first_batches_of_a_sample_that_may_grow(run):
    task, folder = run
    begun = replace(task, sample_sizes=replace(task.sample_sizes, searched_first=1))
    few, all_of_them = replayed((begun, folder), every=3), replayed(run, every=3)
    assert few.commits[0].search.standard_error is None  # one batch has none
    assert all_of_them.commits[0].search.standard_error is not None


def test_a_commit_that_was_not_written_down_is_measured_without_its_times(run, whole, tmp_path):
    before, report = whole
    out = shutil.copytree(before, tmp_path / "out")
    results = next(out.glob("*/results.json"))
    found = json.loads(results.read_text())
    found["commits"].pop()
    results.write_text(json.dumps(found))
    again = replayed(run, out)
    assert again.commits[-1].spent is None
    assert again.commits[-1].verify == report.commits[-1].verify
    assert again.commits[:-1] == report.commits[:-1]


@pytest.mark.slow
def test_originals_are_evaluated_once_for_all_bounds(run, tmp_path):
    replayed(run, tmp_path / "out")
    originals = tmp_path / "out" / "originals.json"
    before = originals.read_text()
    assert len(next(iter(json.loads(before).values()))) == 2 * 4
    replayed(run, tmp_path / "out", max_degradation=0.5)
    assert originals.read_text() == before
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["0.05", "0.5", "originals.json"]


def test_a_budget_has_a_folder_of_its_own(run, every_third, tmp_path):
    before, usual = every_third
    out = shutil.copytree(before, tmp_path / "out")
    tight = replayed(run, out, every=3, search_mean=1.5)
    assert {path.name for path in out.iterdir()} == {"0.05", "0.05-1.5", "originals.json"}
    assert tight.evaluations <= usual.evaluations


@pytest.mark.slow
def test_a_mechanism_that_is_left_out_has_a_folder_of_its_own(run, tmp_path):
    report = replayed(run, tmp_path, every=3, without=("carried-momentum",))
    assert (tmp_path / "0.05-without-carried-momentum/results.json").exists()
    assert {one.quantizer["first"] for one in report.commits if one.quantizer} == {"absent"}
    assert replayed(run, tmp_path, every=3, without=("carried-momentum",)) == report


def test_other_settings_do_not_continue_a_run(run, tmp_path):
    replayed(run, tmp_path / "out", every=3)
    with pytest.raises(ConflictError, match="another run"):
        replayed(run, tmp_path / "out", every=3, moments="resume")


def test_damaged_results_are_named(run, every_third, tmp_path):
    out = shutil.copytree(every_third[0], tmp_path / "out")
    next(out.glob("*/results.json")).write_text('{"setting": {}}')
    with pytest.raises(FileFormatError, match=r"results\.json"):
        replayed(run, out, every=3)


def test_nothing_is_left_without_a_folder(run):
    report = replayed(run, every=3)
    assert report.repository is None
    text = "\n".join(bounded(report, Screen()))
    assert "2 commits, at most +5.000% worse, moments light" in text
    assert f"CR-w   {report.history.weights:.2f}" in text


def test_checkpoints_of_another_model_are_refused(run, tmp_path):
    task, _ = run
    for step in (1, 2):
        torch.save({"model": {"other": torch.ones(2)}, "opt": {}}, tmp_path / f"step_{step}.pt")
    with pytest.raises(FileFormatError, match="step_1"):
        replay_run(task, tmp_path, None, BoundedTerms(0.01), progress=SILENT)
    torch.save({"model": {}}, tmp_path / "step_1.pt")
    with pytest.raises(FileFormatError, match="does not hold a model and its optimizer"):
        replay_run(task, tmp_path, None, BoundedTerms(0.01), progress=SILENT)


def test_samples_are_disjoint_and_always_the_same(each_run):
    task, _ = each_run
    samples = samples_of(task)
    chosen = [part.chosen for part in (samples.search, samples.verify, samples.report)]
    batch = task.sample_sizes.batch
    assert [len(part) for part in chosen] == [3 * batch, 3 * batch, 4 * batch]
    assert len(set(np.concatenate(chosen))) == 10 * batch
    assert all(
        np.array_equal(a.chosen, b.chosen)
        for a, b in zip(vars(samples).values(), vars(samples_of(task)).values(), strict=True)
    )
    assert len(everything(task).chosen) == task.held_out


def test_batches_add_up_to_the_metrics(each_run):
    task, _ = each_run
    model = task.model()
    sample = samples_of(task).report
    found = list(sample.evaluate(model))
    model.train()
    assert sample.metrics(model)["loss"] == pytest.approx(
        sum(total for total, _ in found) / len(sample.chosen)
    )
    assert model.training


def test_too_little_data_is_refused(tmp_path):
    task = tiny_gpt(tmp_path / "data")
    (tmp_path / "text").write_bytes(b"too short for ten pieces")
    short = replace(task, corpus=held_out_text(tmp_path / "text"))
    with pytest.raises(UsageError, match="0 held-out examples"):
        samples_of(short)
    with pytest.raises(NotFoundError, match="nowhere"):
        held_out_text(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("degradation", "error", "keeps"),
    [(0.01, 0.0, True), (0.012, 0.001, True), (0.0121, 0.001, False), (0.02, None, False)],
)
def test_a_bound_is_kept_up_to_two_standard_errors(degradation, error, keeps):
    assert Judged(degradation, error).keeps(0.0100001) is keeps


def sizes(*stored):
    return [
        CommittedStep(step, 0, 0, 0, 0, bytes_, 0, 0.0, 0, 0.0) for step, bytes_ in enumerate(stored, start=5)
    ]


@pytest.mark.parametrize(
    ("stored", "largest"),
    [
        ([4, 4, 12], 3.0),
        ([1] * 9 + [5] + [9] * 10, 9.0),  # steps down and up again are looked at in windows
        ([10] * 10 + [1] * 10, 10.0),
        ([7] * 30, 1.0),
    ],
)
def test_evenness_is_that_of_the_worst_ten(stored, largest):
    found = ConstantStretch.of(sizes(*stored))
    assert (found.first, found.last, found.largest) == (5, 4 + len(stored), largest)


def test_two_commits_say_nothing_of_evenness():
    assert ConstantStretch.of(sizes(1, 9)) is None


def test_evenness_is_told_where_the_rate_is_constant(run, tmp_path):
    task, folder = run
    steady = replace(task, schedule=Constant(task.schedule.peak, warm=1))
    assert replay_run(task, folder, tmp_path, BoundedTerms(0.05), progress=SILENT).constant is None
    report = replay_run(steady, folder, tmp_path, BoundedTerms(0.05), progress=SILENT)
    stored = [one.size.weights_stored for one in report.commits[1:]]
    assert report.constant == ConstantStretch(2, 6, max(stored) / statistics.median(stored))
    assert f"steps 2 to 6: the largest of ten commits has {report.constant.largest:.2f}" in "\n".join(
        bounded(report, Screen())
    )
