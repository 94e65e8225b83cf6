"""Files of torch.save come back with the same content; what asks to run code never runs."""

import io
import math
import os
import pickle
import re
import struct
import tracemalloc
import zipfile
from collections import OrderedDict
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, reject
from hypothesis import strategies as st

from mvcs.checkpoint.files import capture_files
from mvcs.checkpoint.state.captured import Captured, Collector
from mvcs.checkpoint.state.state import StateCapture
from mvcs.errors import FileFormatError, MvcsError, UnsafeFileError
from mvcs.objects import DTYPES
from tests.checkpoint.conftest import hold


def checkpoint():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 4))
    model[2].weight = torch.nn.Parameter(model[0].weight.detach().t().contiguous())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model(torch.randn(5, 4)).sum().backward()
    optimizer.step()
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "rng": torch.get_rng_state(),
        "step": 7,
        "loss": float("nan"),
        "tied": [model[0].weight, model[0].weight],
        "args": {"lr": 1e-3, "betas": (0.9, 0.95), "name": "x" * 9000, "dtype": torch.bfloat16},
        "big": 1 << 100,
        "bytes": b"abc",
    }


def assert_equal(actual, expected):
    assert type(actual) is type(expected)
    if isinstance(expected, dict):
        assert list(actual) == list(expected)
        for key in expected:
            assert_equal(actual[key], expected[key])
    elif isinstance(expected, list | tuple):
        assert len(actual) == len(expected)
        for mine, theirs in zip(actual, expected, strict=True):
            assert_equal(mine, theirs)
    elif isinstance(expected, torch.Tensor):
        assert actual.dtype == expected.dtype
        assert actual.requires_grad == expected.requires_grad
        assert torch.equal(actual, expected)
    else:
        assert actual == expected or (math.isnan(actual) and math.isnan(expected))


@pytest.mark.parametrize("zipped", [True, False])
def test_a_training_checkpoint_comes_back(tmp_path, hold_files, zipped):
    path = tmp_path / "step_10.pt"
    torch.save(checkpoint(), path, _use_new_zipfile_serialization=zipped)
    held = hold_files(path)
    loaded = torch.load(held.write(tmp_path / "out")[0], weights_only=True)
    assert sorted(held.asked) == list(range(len(held.data)))
    assert (tmp_path / "out" / "step_10.pt").read_bytes() == path.read_bytes()
    assert_equal(loaded, checkpoint())
    assert type(loaded["model"]) is OrderedDict
    assert loaded["model"]._metadata == checkpoint()["model"]._metadata
    assert (
        loaded["tied"][0] is loaded["tied"][1] or loaded["tied"][0].data_ptr() == loaded["tied"][1].data_ptr()
    )


def test_tensors_of_an_archive_are_read_where_they_lie(tmp_path):
    path = tmp_path / "x.pth"
    torch.save({"w": torch.arange(1000.0)}, path)
    captured = capture_files([path], tmp_path)
    assert captured.leaves[0].path == ("x.pth", "w")
    assert captured.leaves[0].source.read() == torch.arange(1000.0).numpy().tobytes()


class Touch:
    """Creates a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


class Shell(Touch):
    """The same through a shell."""

    def __reduce__(self):
        return (os.system, (f"touch {self.path}",))


def archive_of(payload):
    buffer = io.BytesIO()
    torch.save({"weights": torch.ones(2), "hook": payload}, buffer)
    return buffer.getvalue()


def legacy_of(payload):
    buffer = io.BytesIO()
    torch.save(payload, buffer, _use_new_zipfile_serialization=False)
    return buffer.getvalue()


@pytest.mark.parametrize("kind", [Touch, Shell])
@pytest.mark.parametrize(
    "write",
    [archive_of, legacy_of, *(lambda payload, p=p: pickle.dumps(payload, p) for p in range(6))],
    ids=["archive", "legacy", *(f"pickle{protocol}" for protocol in range(6))],
)
def test_a_pickle_with_code_is_kept_and_not_run(tmp_path, kind, write, kept):
    path = tmp_path / "model.pt"
    path.write_bytes(write(kind(tmp_path / "ran")))
    assert re.search(r"asks for '.*(open|system).*nothing was run", kept(path))
    assert not (tmp_path / "ran").exists()


def test_of_a_whole_module_the_tensors_are_found(tmp_path, kept):
    path = tmp_path / "model.pt"
    torch.save(torch.nn.Linear(2, 2), path)
    assert "torch.nn.modules.linear.Linear" in kept(path)
    found = [leaf.path[1] for leaf in capture_files([path], tmp_path).leaves]
    assert found == ["_parameters.weight", "_parameters.bias"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_torchscript_is_kept(tmp_path, kept):
    path = tmp_path / "model.pt"
    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), path)
    assert "asks for 'TorchScript'" in kept(path)


def test_what_cannot_be_stored_is_named_with_its_file(tmp_path, kept):
    path = tmp_path / "model.pt"
    torch.save({"a": {"b": torch.eye(2).to_sparse()}}, path)
    assert "model.pt.a.b: a sparse_coo tensor" in kept(path)


VALID = archive_of(3)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"hello world, this is text\n",
        VALID[:-30],
        VALID[:200],
        b"PK\x03\x04" + bytes(60),
        pickle.dumps({"a": 1}),
    ],
)
def test_what_is_no_torch_file_is_refused(tmp_path, content):
    path = tmp_path / "x.pt"
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=r"is not a file of torch\.save: .+") as caught:
        capture_files([path], tmp_path)
    assert not isinstance(caught.value, UnsafeFileError)


@given(st.integers(0, 8 * len(VALID) - 1), st.integers(1, len(VALID)))
def test_damaged_archives_never_escape_as_other_errors(tmp_path_factory, bit, length):
    folder = tmp_path_factory.mktemp("damaged")
    content = bytearray(VALID[:length] if bit % 3 == 0 else VALID)
    content[bit // 8 % len(content)] ^= 1 << bit % 8
    (folder / "x.pt").write_bytes(content)
    try:
        for leaf in capture_files([folder / "x.pt"], folder).leaves:
            assert leaf.source.read().nbytes == leaf.raw_bytes
    except MvcsError:
        pass


def test_compressed_members_are_refused(tmp_path):
    path = tmp_path / "x.pt"
    with (
        zipfile.ZipFile(io.BytesIO(VALID)) as source,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as target,
    ):
        for name in source.namelist():
            target.writestr(name, source.read(name))
    with pytest.raises(FileFormatError, match="is compressed"):
        capture_files([path], tmp_path)


def test_a_tensor_that_explodes_is_refused(tmp_path):
    path = tmp_path / "x.pt"
    torch.save({"bomb": torch.zeros(1).expand(1 << 30, 1 << 10)}, path)
    with pytest.raises(FileFormatError, match="would grow to"):
        capture_files([path], tmp_path)


def test_overlapping_members_are_refused(tmp_path):
    content = bytearray(VALID)
    entry = content.index(b"PK\x01\x02", content.index(b"PK\x01\x02") + 4)
    struct.pack_into("<I", content, entry + 42, 10)
    path = tmp_path / "x.pt"
    path.write_bytes(content)
    with pytest.raises(FileFormatError):
        capture_files([path], tmp_path)


TYPES = sorted(DTYPES)


@st.composite
def views(draw):
    """A tensor, as torch.save finds tensors in states: part of its memory, turned, expanded, a parameter."""
    dtype = getattr(torch, draw(st.sampled_from(TYPES)))
    count = draw(st.sampled_from([0, 1, 6, 24, 1200, 6000]))
    bits = torch.arange(count * dtype.itemsize, dtype=torch.int64) % 2
    tensor = bits.to(torch.uint8).view(dtype) if count else torch.empty(0, dtype=dtype)
    turns = [
        lambda whole: whole,
        lambda whole: whole[::2],
        lambda whole: whole[count // 3 : count // 2],
        lambda whole: whole.reshape(2, 3, -1).permute(2, 0, 1) if count % 6 == 0 and count else whole,
        lambda whole: whole[:1].expand(3, -1),
        lambda whole: whole.reshape(-1, 1)[:, :0],
        lambda whole: whole.conj() if whole.is_complex() else whole,
        lambda whole: torch._neg_view(whole) if whole.dtype in (torch.float32, torch.bfloat16) else whole,
    ]
    turned = draw(st.sampled_from(turns))
    found = turned(tensor)
    if found.is_floating_point() and draw(st.booleans()):
        found = torch.nn.Parameter(found, requires_grad=draw(st.booleans()))
    return found


PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(min_size=1)
CONSTANTS = [torch.Size([2, 3]), torch.Size([]), torch.device("cuda:1"), torch.bfloat16, bytearray(b"ab"), 2j]
STATES = st.recursive(
    PLAIN | st.sampled_from(CONSTANTS) | st.sets(st.integers() | st.text()) | views(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text() | st.integers() | st.booleans(), inner, max_size=4)
        | st.dictionaries(st.text(), inner, max_size=4).map(OrderedDict)
        | inner.map(lambda one: [one, {"again": one}])
    ),
    max_leaves=12,
)


@given(STATES, st.booleans())
def test_a_tree_has_the_id_that_it_has_where_torch_loads_the_file(tmp_path_factory, state, zipped):
    path = tmp_path_factory.mktemp("same") / "x.pt"
    try:
        torch.save(state, path, _use_new_zipfile_serialization=zipped)
        loaded = torch.load(path, weights_only=True)
    except (AttributeError, KeyError, RuntimeError):  # of one memory as two types; or of types that are newer
        reject()
    read, collector = capture_files([path], path.parent), Collector()
    node = StateCapture(collector).node(loaded, (path.name,))
    (entry,) = read.files
    twin = Captured(tuple(collector.leaves), files=(replace(entry, node=node),), blobs=read.blobs)
    assert read.blobs.keys() >= collector.blobs.keys()
    assert hold(read).tree.encode() == hold(twin).tree.encode()


def test_the_older_form_has_views_of_memory(tmp_path, hold_files):
    """As torch before 0.4 wrote them: a tensor of the last three elements of a storage of five."""
    memory = torch.arange(5.0)
    path = tmp_path / "x.pt"
    torch.save({"w": memory[2:]}, path, _use_new_zipfile_serialization=False)
    content = path.read_bytes()
    begin = content.index(b"K\x05Nt")
    view = b"X\x04\x00\x00\x00viewK\x02K\x03\x87"
    end = content.index(b"QK\x02", begin)
    content = content[:begin] + b"K\x05" + view + b"tQK\x00" + content[end + 3 :]
    path.write_bytes(content)
    assert torch.equal(torch.load(path, weights_only=True)["w"], memory[2:])
    held = hold_files(path)
    assert held.data == [memory[2:].numpy().tobytes()]
    assert held.write(tmp_path / "out")[0].read_bytes() == content


def test_numpy_values_in_a_torch_file_are_kept_and_named(tmp_path, kept):
    path = tmp_path / "x.pt"
    torch.save({"best": np.float64(1)}, path)
    assert "numpy" in kept(path)


def test_views_and_shared_memory_of_large_tensors_come_back(tmp_path, hold_files):
    big = torch.arange(1 << 14, dtype=torch.float32).reshape(128, 128)
    held = [torch.view_as_complex(big.reshape(-1, 64, 2) + number) for number in range(2)]
    content = {
        "whole": big,
        "turned": big.T,
        "part": big[3:9, 5:100:7],
        "wide": big[:1].expand(5, 128),
        "conj": held[0].conj()[2:5],
        "imaginary": held[1].conj().imag,
        "few": torch.arange(5),
        "none": big[:0],
        "half": big.to(torch.bfloat16),
    }
    path = tmp_path / "x.pt"
    torch.save(content, path)
    (written,) = hold_files(path).write(tmp_path / "out")
    assert_equal(torch.load(written, weights_only=True), content)


def test_equal_places_in_two_files_are_two_tensors(tmp_path, hold_files):
    for number in range(2):
        torch.save({"w": torch.full((4096,), float(number))}, tmp_path / f"{number}.pt")
    held = hold_files(tmp_path / "0.pt", tmp_path / "1.pt")
    assert [set(data) for data in map(bytes, held.data)] == [{0}, set(struct.pack("<f", 1.0))]


def test_no_more_than_a_chunk_of_a_large_tensor_is_in_memory(tmp_path):
    for path, save in ((tmp_path / "x.pt", torch.save), (tmp_path / "x.npz", np.savez)):
        save({"w": torch.zeros(1 << 23)}, path) if path.suffix == ".pt" else save(path, w=np.zeros(1 << 23))
        tracemalloc.start()
        try:
            (leaf,) = capture_files([path], tmp_path).leaves
            sizes = [part.nbytes for part in leaf.chunks()]
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert len(sizes) == 2
        assert peak < 2.2 * sizes[0]
