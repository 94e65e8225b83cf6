"""What is measured is true: sizes are of payloads that decode, computed limits are those of a coder."""

import math

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from mvcs.bench.codecs import limits
from mvcs.bench.codecs.codec import measure_codec
from mvcs.bench.codecs.coders import EXACT, Coder, Content, coders_of
from mvcs.bench.codecs.quantizers import CodedTensor
from mvcs.bench.history import commit_all
from mvcs.bench.runs.checkpoint_files import checkpoints, read
from mvcs.bench.runs.run_maker import make_run
from mvcs.delta import ElementFormat
from mvcs.errors import CorruptionError, NotFoundError
from mvcs.objects.chunk_grid import DTYPES
from mvcs.progress import SILENT
from mvcs.quantize import nearest_step
from mvcs.ui.bench import measured
from mvcs.ui.text import Screen
from tests.bench.runs import tiny_gpt


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A trained run of five checkpoints."""
    folder = tmp_path_factory.mktemp("run")
    make_run(tiny_gpt(folder / "data"), folder / "gpt", steps=8, every=2, seed=0, progress=SILENT)
    return folder / "gpt"


def test_every_class_is_measured_with_every_encoding(run):
    report = measure_codec(run, quick=True, progress=SILENT)
    assert [(one.step, one.before) for one in report.transitions] == [(8, 6)]
    sections = {section.title: section for section in report.transitions[0].sections}
    assert {"weights", "weights as bfloat16", "exp_avg", "exp_avg_sq"} <= sections.keys()
    for section in sections.values():
        assert all(
            row.bits * row.ratio == pytest.approx(8 * section.raw_bytes / section.values)
            for row in section.rows
        )
        assert all(row.encode.memcpy > 0 < row.decode.memcpy for row in section.rows)
    names = {row.name for row in sections["weights"].rows}
    assert {coder.name for coder in EXACT} | {"zstd -3", "XOR, planes, zstd -3"} <= names


@pytest.fixture(scope="module")
def report(run):
    """All of the run, measured."""
    return measure_codec(run, every=1, quick=True, progress=SILENT)


@pytest.fixture(scope="module")
def sections(report):
    """What was measured at the last checkpoint, by title."""
    assert [one.step for one in report.transitions] == [2, 4, 6, 8]
    return {section.title.removeprefix("codes: "): section for section in report.transitions[-1].sections}


@pytest.mark.parametrize(
    "name",
    [
        "k-means, 16 values",
        "lattice of weights, step 0.5 rms, hysteresis 0.25",
        "lattice of log2 exp_avg_sq, step 1",
        "exp_avg over the root of exp_avg_sq of step 1, step 0.5",
        "lattice of log2 exp_avg_sq, step 2",
        "exp_avg over the root of exp_avg_sq of step 2, signs",
    ],
)
def test_quantizers_are_measured_with_their_codes(sections, name):
    section = sections[name]
    assert 0 < section.quantization.relative < 1
    assert 0 <= section.quantization.migration < 1
    assert section.limits.keys() == {"alone", "near"}
    assert {row.near for row in section.rows} == {False, True}
    assert all(row.of_limit > 0.2 for row in section.rows if not row.near)


def test_many_checkpoints_are_shown_by_their_means(report):
    text = "\n".join(measured(report, Screen()))
    assert "steps 2 to 8, means" in text
    rows = [
        row
        for one in report.transitions
        for section in one.sections
        for row in section.rows
        if (section.title, row.name) == ("weights", "RANS_PLANES (9)")
    ]
    mean = sum(row.bits for row in rows) / 4
    shown = text.partition("RANS_PLANES (9)")[2].split()
    assert shown[:2] == [f"{mean:.3f}", f"{32 / mean:.3f}"]


def test_a_lattice_keeps_its_bound(sections):
    lost = sections["lattice of weights, step 0.5 rms, hysteresis 0.25"].quantization
    assert lost.steps < lost.largest <= 0.75


def test_codes_before_are_expressed_in_the_step_of_those_now():
    old, new = coded(8, -4, 3, step=0.5), coded(step=1.0)
    assert old.near(new)[0].view("<i2").tolist() == [4, -2, 2]
    assert old.near(old) == old.parts


def coded(*codes, step):
    array = np.array(codes, "<i2")
    return CodedTensor(array.view(np.uint8), lambda: array * np.float32(step), step=nearest_step(step))


def test_a_folder_of_safetensors_is_a_run(tmp_path):
    for step in (1, 2):
        save_file(
            {"layer.weight": torch.randn(8, 8), "bias": torch.ones(8)}, tmp_path / f"step_{step}.safetensors"
        )
    report = measure_codec(tmp_path, quick=True, progress=SILENT)
    assert report.transitions[0].sections[0].values == 64


def test_a_folder_without_checkpoints_is_refused(tmp_path):
    (tmp_path / "model.pt").write_bytes(b"no number")
    with pytest.raises(NotFoundError, match="two are needed"):
        checkpoints(tmp_path)


def test_an_encoding_that_loses_something_is_found():
    from mvcs.bench.codecs.clock import Clock
    from mvcs.bench.codecs.codec import _row

    content = Content.cut([np.arange(8, dtype=np.uint8)], None, ElementFormat(1, floating=False))
    broken = Coder("broken", near=False, encode=lambda _: [b""], decode=lambda *_: [bytes(8)])
    with pytest.raises(CorruptionError, match="broken does not give back"):
        _row(broken, content, 8, Clock(8, 1), {})


@pytest.mark.parametrize("width", [1, 2])
def test_coders_of_codes_give_back_what_they_got(width):
    generator = np.random.default_rng(0)
    base = generator.integers(0, 16, 1000).astype(f"<u{width}")
    codes = np.where(generator.random(1000) < 0.1, 15 - base, base).astype(f"<u{width}")
    content = Content.cut(
        [codes.view(np.uint8)], [base.view(np.uint8)], ElementFormat(width, floating=False), 16
    )
    for coder in coders_of(width):
        payloads = coder.encode(content)
        assert b"".join(map(bytes, coder.decode(payloads, content))) == codes.tobytes()


def test_the_limit_is_what_an_adaptive_coder_writes():
    symbols = np.random.default_rng(0).integers(0, 3, 500)
    seen, bits = np.full(4, limits.PRIOR), 0.0
    for symbol in symbols:
        bits -= math.log2(seen[symbol] / seen.sum())
        seen[symbol] += 1
    assert limits.adaptive_bits(np.bincount(symbols, minlength=4)[None]) == pytest.approx(bits)


def test_unchanged_codes_cost_next_to_nothing():
    codes = [np.random.default_rng(0).integers(0, 16, 10_000).astype(np.uint8)]
    assert limits.codes_bits(codes, None, 1, 16) > 39_000
    assert limits.codes_bits(codes, codes, 1, 16) < 400
    wide = [codes[0].astype("<i2").view(np.uint8)]
    assert limits.codes_bits(wide, wide, 2, 0) < 400


def test_lattice_codes_are_counted_away_from_zero():
    base = np.array([5, -5] * 500, "<i2").view(np.uint8)
    away = np.array([6, -6] * 500, "<i2").view(np.uint8)
    assert limits.codes_bits([away], [base], 2, 0) < 50


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32"])
def test_exact_limit_counts_the_integer_difference(name):
    width = DTYPES[name].itemsize
    values = np.random.default_rng(0).normal(size=4000).astype(np.float32).view("<u4")
    base = (values >> np.uint32(32 - 8 * width)).astype(f"<u{width}")
    moved = base + np.arange(4000).astype(base.dtype) % 2
    same = limits.exact_bits([base.view(np.uint8)], [base.view(np.uint8)], DTYPES[name])
    near = limits.exact_bits([moved.view(np.uint8)], [base.view(np.uint8)], DTYPES[name])
    assert same < 1000
    assert 4000 < near < 8000


def test_a_history_is_counted_from_what_was_written(run):
    exact = commit_all(run, {}, progress=SILENT)
    bounded = commit_all(run, {"bins": 16}, every=4, progress=SILENT)
    assert [one.step for one in exact.commits] == [0, 2, 4, 6, 8]
    assert [one.step for one in bounded.commits] == [0, 8]
    weights = sum(tensor.content.size for tensor in read(checkpoints(run)[-1])["weights"].tensors.values())
    assert {one.weights for one in exact.commits} == {weights}
    assert bounded.weights > 5 > exact.weights > 1
    assert exact.quantizer is None
    assert bounded.quantizer["bins"] == 16
    last = bounded.commits[-1]
    assert last.weights_stored + last.metadata < last.stored_bytes
    assert bounded.weights_later == pytest.approx(last.weights / last.weights_stored)
    assert 0 < last.relative < 0.2


def test_a_history_without_a_mechanism_takes_other_bytes(run):
    whole, without = (
        commit_all(run, {"step_size": 0.5}, every=1, without=names, progress=SILENT)
        for names in ((), ("keep-pace",))
    )
    assert without.commits[-1].weights_stored != whole.commits[-1].weights_stored
