"""Experiments of papers on a tiny run: what is measured, what is published, what a killed one continues."""

import importlib.util
from dataclasses import replace

import pytest

from mvcs.bench import experiments
from mvcs.bench.experiments import EXPERIMENTS, Options, run_experiment
from mvcs.bench.judges import TaskJudge
from mvcs.bench.methods.catalog import METHODS
from mvcs.bench.results import ComparisonReport
from mvcs.bench.runs.recorded_state import RecordedRun
from mvcs.bench.runs.run_maker import make_run
from mvcs.bench.runs.tasks import Cosine
from mvcs.errors import UsageError
from mvcs.progress import SILENT
from tests.bench.runs import Stop, StopAfter, tiny_gpt

OPTIONS = Options(evaluations=2, values=20_000)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run of four checkpoints, and what judges it. To be looked at."""
    folder = tmp_path_factory.mktemp("trained")
    task = replace(tiny_gpt(folder / "data"), schedule=Cosine(peak=0.02, floor=1.0, warm=1))
    make_run(task, folder / "run", steps=6, every=2, seed=0, progress=SILENT)
    return RecordedRun.of_folder(folder / "run"), TaskJudge(task)


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """One output folder for all experiments, as a user has it."""
    return tmp_path_factory.mktemp("out")


def made(trained, out, name, progress=SILENT):
    return run_experiment(name, *trained, out, OPTIONS, progress=progress)


def by_name(report):
    return {row.what: row for row in report.rows}


def test_coders_of_the_same_codes_stand_beside_each_other(trained, out):
    rows = by_name(made(trained, out, "fig11"))
    assert {f"{coder}, whole run" for coder in ("HE", "RLE", "PE", "mvcs, RANS_DELTA")} <= rows.keys()
    assert rows["PE, whole run"].published == "39"
    assert rows["PE, peak"].measured == max(rows[f"PE, step {step}"].measured for step in (0, 2, 4, 6))
    assert rows["mvcs, RANS_DELTA, whole run"].measured > rows["HE, whole run"].measured


@pytest.mark.parametrize("name", ["fig11", "table6", "table7", "qd9"])
def test_a_killed_experiment_continues_with_the_same_numbers(trained, out, tmp_path, name):
    with pytest.raises(Stop):
        made(trained, tmp_path, name, StopAfter(1))
    again, whole = (by_name(made(trained, place, name)) for place in (tmp_path, out))
    for rows in (again, whole):
        rows.pop("lattice: CR-w", None)  # metadata of a commit takes more or less bytes with the time
    assert again == whole


def test_a_state_that_is_as_good_needs_no_steps_to_recover(trained, out):
    rows = by_name(made(trained, out, "qd9"))
    assert rows["lc, the first half"].published == "9 to 32"
    assert all(row.measured is None or 0 <= row.measured <= 2 for row in rows.values())
    assert any(row.measured is not None for row in rows.values())


def test_what_was_timed_is_not_timed_again(trained, out):
    assert made(trained, out, "qd10") == made(trained, out, "qd10")


def test_bins_are_searched_at_each_checkpoint_by_itself(trained, out):
    rows = by_name(made(trained, out, "table7"))
    assert rows["inshrinkerator, 5.0%"].published == "6.3 to 17.9"
    assert 4 <= rows["inshrinkerator, 5.0%"].measured <= 250
    assert 8 <= rows["qd, 5.0%"].measured <= 256
    assert 2 < rows["qd, 5.0%, stored"].measured < 10


def test_variants_of_methods_are_in_no_report(trained, out):
    for name in ("table7", "qd1"):
        made(trained, out, name)
    (run,) = ComparisonReport.of(out).runs
    assert {one.method.partition(":")[0] for one in run.results} <= METHODS.keys()
    assert all(not one.unmeasured for one in run.results)


def test_a_transfer_has_the_papers_figures(trained, out):
    rows = by_name(made(trained, out, "table6"))
    assert rows["lattice: CR-w"].published == "9.99 to 11.32"
    assert rows["inshrinkerator: CR-w"].measured > 3
    assert all(
        abs(rows[f"{name}: restored, worse by"].measured) < 10 for name in ("inshrinkerator", "lattice")
    )


def test_what_is_restored_exactly_learns_what_the_run_did(trained, tmp_path, monkeypatch):
    monkeypatch.setattr(experiments, "_TRANSFERRED", ("mvcs-exact",))
    assert by_name(made(trained, tmp_path, "table6"))["mvcs-exact: fine-tuned, worse by"].measured == 0


def test_speeds_are_ratios_to_ours(trained, out):
    rows = by_name(made(trained, out, "table8"))
    assert rows["quantile, numpy.partition"].measured > 0
    assert rows["quantile, torch.kthvalue"].published == "4.50 to 4.73"


@pytest.mark.skipif(importlib.util.find_spec("sklearn") is not None, reason="scikit-learn is installed")
def test_a_library_that_is_not_installed_is_a_row_that_says_so(trained, out):
    row = by_name(made(trained, out, "table8"))["clustering, scikit-learn"]
    assert (row.measured, row.note) == (None, "not installed: pip install scikit-learn")


def test_one_range_for_all_tensors_restores_them_more_coarsely(trained):
    tensors = next(iter(trained[0].readers.values()))().weights
    setting = {"min_bits": 8, "max_bits": 8}

    def error(method):
        restored = method.encode(tensors, None, setting)[1].tensors
        return max(float(abs(restored[name] - tensors[name]).mean()) for name in tensors)

    assert error(experiments._GlobalQD()) > error(experiments.QD())


def test_differences_first_add_up_to_the_weights(trained):
    method, state = experiments._DeltaFirstQD(), None
    for read in trained[0].readers.values():
        tensors = read().weights
        _, state = method.encode(tensors, state, {"min_bits": 8, "max_bits": 8})
    assert all(abs(state.tensors[name] - tensors[name]).max() < 0.01 for name in tensors)


@pytest.mark.parametrize("name", ["qd4", "qd5"])
def test_totals_have_the_papers_figures(trained, out, name):
    rows = made(trained, out, name).rows
    assert all(row.published for row in rows)
    assert all(row.measured is None or row.measured > 1 for row in rows)


def test_every_experiment_says_where_it_is_from_and_what_differs():
    assert all(one.source and one.differs for one in EXPERIMENTS.values())


def test_an_unknown_experiment_is_refused(trained, out):
    with pytest.raises(UsageError, match="there is no experiment 'fig12'") as refused:
        made(trained, out, "fig12")
    assert "fig11" in refused.value.hint
