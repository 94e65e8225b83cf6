"""Arms that train over links of few bits: real processes on loopback, and in network namespaces."""

import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from mvcs.bench.channels import Arm, ChannelsPlan, ChannelsReport, channels_task, run_channels
from mvcs.bench.networks import NoNetworkError, bits_a_second, slow_network
from mvcs.bench.pipeline import MICRO_BATCHES
from mvcs.bench.results import ComparisonReport
from mvcs.bench.runs.run_maker import make_run
from mvcs.bench.runs.tasks import Constant
from mvcs.bench.tasks.next_byte import FinetuneTask, PureBf16Task
from mvcs.errors import ConflictError, EvaluationError, FileFormatError, NotFoundError, UsageError
from mvcs.progress import SILENT
from tests.bench.runs import Stop, StopAfter, tiny_cnn, tiny_gpt, tiny_gru, tiny_variant

PLAN = ChannelsPlan(pieces=16, epochs=3, batch=8)


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    return replace(tiny_gpt(tmp_path_factory.mktemp("data")), schedule=Constant(peak=0.01, warm=1))


@pytest.fixture(scope="module")
def trained(task, tmp_path_factory):
    """An output folder with two arms. To be looked at."""
    out = tmp_path_factory.mktemp("out")
    run_channels(task, ["aq:2:4", "float32"], [], out, PLAN, progress=SILENT)
    return out


def arms(out):
    return {one.arm: one for one in ChannelsReport.of(out).arms}


def running(folder):
    """Return the processes whose command names a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has just ended
            found += [path.parent.name] * (os.fsencode(folder) in path.read_bytes())
    return found


def test_stages_learn_what_one_process_learns(task, trained):
    """The same pieces in the same order, without links."""
    drawn, width = np.random.default_rng(PLAN.seed), task.context + 1
    starts = drawn.permutation(len(task.corpus.train) // width)[: PLAN.pieces] * width
    pieces = torch.from_numpy(
        np.stack([task.corpus.train[at : at + width] for at in starts]).astype(np.int64)
    )
    torch.manual_seed(PLAN.seed)
    model = task.model()
    optimizer, losses = task.optimizer(model), []
    for group in optimizer.param_groups:
        group["lr"] = 0.01
    for _ in range(PLAN.epochs):
        for ids in torch.from_numpy(drawn.permuted(np.arange(PLAN.pieces))).split(PLAN.batch):
            loss = model(pieces[ids][:, :-1], pieces[ids][:, 1:])
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
    means = np.reshape(losses, (PLAN.epochs, -1)).mean(1)
    assert arms(trained)["float32"].loss == pytest.approx(means.tolist(), abs=1e-4)


def test_changes_take_their_bits_after_an_epoch_in_full(trained):
    few, full = arms(trained)["aq:2:4"], arms(trained)["float32"]
    assert few.forward[0] == pytest.approx(full.forward[0], rel=0.01)
    assert full.forward[2] / few.forward[2] > 10
    assert full.backward[2] / few.backward[2] > 6
    assert few.loss[0] == pytest.approx(full.loss[0], abs=1e-4)


def test_errors_bytes_and_messages_are_told(task, trained):
    few = arms(trained)["aq:2:4"]
    assert 0 < few.error[0] < 0.3
    assert few.memory == 2 * PLAN.pieces * task.sizes.width * (2 * task.context + 2)
    assert few.busiest == max(few.forward[-1], few.backward[-1]) / 2
    assert {line["direction"] for line in few.edges} == {"forward", "backward"}
    assert arms(trained)["float32"].error == [None]


def test_float32_is_first_and_the_report_has_it(trained):
    report = ComparisonReport.of(trained)
    assert [one.arm for one in report.channels.arms] == ["float32", "aq:2:4"]
    assert report.runs == []


def test_arms_that_are_there_are_not_trained_again(task, trained):
    before = ChannelsReport.of(trained)
    assert run_channels(task, ["float32", "aq:2:4"], [], trained, PLAN, progress=SILENT) == before


def test_an_output_folder_of_another_run_is_refused(task, trained):
    with pytest.raises(ConflictError, match="trained otherwise: epochs"):
        run_channels(task, ["float32"], [], trained, replace(PLAN, epochs=4), progress=SILENT)


def test_an_arm_that_is_torn_is_not_there(trained, tmp_path):
    out = shutil.copytree(trained, tmp_path / "out")
    kept = out / "channels" / "arm-aq-2-4.json"
    kept.write_bytes(kept.read_bytes()[:-9])
    assert list(arms(out)) == ["float32"]


def test_a_stopped_command_leaves_only_whole_arms(task, trained, tmp_path):
    out = shutil.copytree(trained, tmp_path / "out")
    (out / "channels" / "arm-aq-2-4.json").unlink()
    with pytest.raises(Stop):
        run_channels(task, ["float32", "aq:2:4"], [], out, PLAN, progress=StopAfter(0))
    assert list(arms(out)) == ["float32"]
    assert [path.name for path in out.iterdir()] == ["channels"]


def test_a_stage_that_fails_is_named_and_nothing_is_left_running(task, tmp_path):
    wild = replace(task, schedule=Constant(peak=1e30, warm=1))
    with pytest.raises(EvaluationError, match=r"rank \d of aq:2:4 ended with exit code 1: .* is not finite"):
        run_channels(wild, ["aq:2:4"], [], tmp_path, PLAN, progress=SILENT)
    assert running(tmp_path) == []
    assert ChannelsReport.of(tmp_path) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "rate"), [("float32", 0.01), ("float32:g8", 0.01), ("aq:8:8:g8", 0.01), ("aq:8:8:m8:a8", 2e-5)]
)
def test_replicas_learn_together(task, tmp_path, name, rate):
    """Moments of 1-bit Adam are frozen behind one step here, so that it takes a lower rate."""
    plan, slow = replace(PLAN, replicas=2), replace(task, schedule=Constant(peak=rate, warm=1))
    (one,) = run_channels(slow, [name], [], tmp_path, plan, progress=SILENT).arms
    assert one.loss[-1] < one.loss[0]
    assert one.averaged > 0


def test_a_model_that_was_trained_is_fine_tuned(tmp_path):
    base = tiny_gpt(tmp_path)
    base = replace(base, sizes=replace(base.sizes, heads=4))
    make_run(base, tmp_path / "base", steps=1, every=1, seed=1, progress=SILENT)
    task = channels_task(tmp_path / "base")
    assert isinstance(task, FinetuneTask)
    assert task.sizes == base.sizes
    assert task.model().state_dict().keys() == base.model().state_dict().keys()


def test_a_folder_without_a_run_is_no_base(tmp_path):
    with pytest.raises(NotFoundError):
        channels_task(tmp_path)


@pytest.mark.parametrize("learned", [tiny_cnn, tiny_gru, partial(tiny_variant, PureBf16Task)])
def test_a_run_of_another_model_is_no_base(learned, tmp_path):
    make_run(learned(tmp_path), tmp_path / "base", steps=1, every=1, seed=1, progress=SILENT)
    with pytest.raises(FileFormatError, match="not one of a GPT of float32 weights"):
        channels_task(tmp_path / "base")


@pytest.mark.parametrize(
    "name", ["", "aq", "aq:2", "aq:2:4:m3", "direct:2:4:m8", "float32:2:4", "aq:2:4:x8", "qd:2:4", "aq:-2:4"]
)
def test_an_arm_that_is_none_is_refused(name):
    with pytest.raises(UsageError, match="there is no arm"):
        Arm.of(name)


@pytest.mark.parametrize("name", ["aq:0:4", "aq:2:9", "float32:g9", "direct:16:4"])
def test_bits_out_of_range_are_refused(name):
    with pytest.raises(UsageError, match="bits a value"):
        Arm.of(name)


@pytest.mark.parametrize(
    ("names", "changed", "message"),
    [
        ([], {}, "no arm"),
        (["float32"], {"stages": 3}, "2 layers cannot have 3 stages"),
        (["float32"], {"pieces": 12}, "12 pieces cannot be cut"),
        (["float32"], {"batch": 6, "pieces": 12}, "cannot be cut"),
        (["float32"], {"pieces": 16_000_000}, "the text has"),
        (["float32:g4"], {}, "averages gradients of replicas"),
    ],
)
def test_plans_that_do_not_fit_are_refused(task, tmp_path, names, changed, message):
    with pytest.raises(UsageError, match=message):
        run_channels(task, names, [], tmp_path / "out", replace(PLAN, **changed), progress=SILENT)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("rate", "bits"), [("100mbit", 1e8), ("1gbit", 1e9), ("2.5kbit", 2500.0)])
def test_rates_are_as_tc_has_them(rate, bits):
    assert bits_a_second(rate) == bits


@pytest.mark.parametrize("rate", ["", "100", "100mb", "0mbit", "-1mbit", "fast", "1e3mbit", "1mbit "])
def test_what_is_no_rate_is_refused(rate):
    with pytest.raises(UsageError, match="no rate"):
        bits_a_second(rate)


def namespaces(owner):
    return [path.name for path in Path("/run/netns").glob(f"mvcs-{owner}-*")]


@pytest.fixture
def network():
    """Skip where namespaces cannot be made."""
    try:
        with slow_network(1, "100mbit"):
            pass
    except NoNetworkError as error:
        pytest.skip(error.message)


def test_without_iproute2_speed_is_computed_and_the_row_says_so(task, trained, tmp_path, monkeypatch):
    out = shutil.copytree(trained, tmp_path / "out")
    monkeypatch.setenv("PATH", str(tmp_path))
    found = run_channels(task, ["float32", "aq:2:4"], ["8kbit"], out, PLAN, progress=SILENT)
    for one in found.arms:
        assert [link.how for link in one.links] == ["computed"]
        assert one.links[0].steps_a_second == pytest.approx(1000 / one.busiest)
        assert one.links[0].wire == pytest.approx(one.busiest / 1000 / MICRO_BATCHES)


@pytest.mark.usefixtures("network")
def test_a_link_carries_its_rate_and_goes_at_the_end():
    with slow_network(2, "8mbit") as prefixes:
        assert len(namespaces(os.getpid())) == 3
        receive = "import socket; here = socket.create_server(('10.0.0.1', 5000)); print(flush=True)"
        receive += "; here.accept()[0].recv(1)"
        server = subprocess.Popen([*prefixes[0], sys.executable, "-c", receive], stdout=subprocess.PIPE)
        server.stdout.readline()
        send = "import socket; socket.create_connection(('10.0.0.1', 5000)).sendall(b'1')"
        subprocess.run([*prefixes[1], sys.executable, "-c", send], check=True)
        server.communicate()
        shown = subprocess.run(
            ["tc", "-n", prefixes[0][3], "qdisc"], capture_output=True, text=True, check=True
        )
        assert "rate 8Mbit" in shown.stdout
    assert namespaces(os.getpid()) == []


@pytest.mark.usefixtures("network")
def test_a_failure_leaves_no_namespace():
    with pytest.raises(Stop), slow_network(2, "8mbit"):
        raise Stop
    assert namespaces(os.getpid()) == []


@pytest.mark.usefixtures("network")
def test_namespaces_of_a_killed_process_are_removed_by_the_next():
    ended = subprocess.Popen(["true"])
    ended.wait()
    subprocess.run(["ip", "netns", "add", f"mvcs-{ended.pid}-hub"], check=True)
    with slow_network(1, "8mbit"):
        assert namespaces(ended.pid) == []


@pytest.mark.slow
@pytest.mark.usefixtures("network")
def test_ctrl_c_leaves_no_namespace_and_no_process(tmp_path):
    words = ["bench", "channels", "gpt", "--arms", "float32", "--pieces", "16", "--epochs", "2"]
    words += ["--link", "1mbit", "--out", str(tmp_path / "out")]
    command = subprocess.Popen([sys.executable, "-m", "mvcs", *words], stderr=subprocess.PIPE)
    while not namespaces(command.pid):
        assert command.poll() is None
    command.send_signal(signal.SIGINT)
    command.communicate()
    assert namespaces(command.pid) == []
    assert not [one for one in Path("/proc").glob("[0-9]*/cmdline") if str(tmp_path) in _words(one)]


def _words(path):
    try:
        return path.read_text()
    except OSError:  # it has just ended
        return ""


@pytest.mark.slow
@pytest.mark.usefixtures("network")
def test_a_real_link_is_slower_and_few_bits_are_faster_over_it(task, tmp_path):
    found = run_channels(task, ["float32", "aq:2:4"], ["1mbit"], tmp_path, PLAN, progress=SILENT)
    full, few = (one.links[0] for one in found.arms)
    assert (full.how, few.how) == ("real", "real")
    assert full.steps_a_second < few.steps_a_second
    assert full.wire > 5 * few.wire
