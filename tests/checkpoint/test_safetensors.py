"""safetensors files come back byte for byte, and every way to be wrong is named."""

import json
import struct
from dataclasses import replace

import numpy as np
import pytest
import safetensors.numpy
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st

from mvcs.checkpoint.files import capture_files, write_file
from mvcs.checkpoint.formats.safetensors_file import build_header, parse_header
from mvcs.errors import ConflictError, CorruptionError, FileFormatError
from mvcs.objects.chunk_grid import DTYPES
from mvcs.objects.trees.leaves import FileEntry
from tests.checkpoint.conftest import hold
from tests.checkpoint.known_types import writable

KINDS = writable()


def every_dtype():
    generator = torch.Generator().manual_seed(1)
    raw = torch.randint(0, 256, (4, 16), generator=generator, dtype=torch.uint8)
    tensors = {f"layer.{name}": raw.clone().view(getattr(torch, name)) for name in KINDS if name != "bool"}
    flags = torch.tensor([True, False])
    return tensors | {
        "layer.bool": flags,
        "scalar": torch.tensor(1.5),
        "empty": torch.empty(0, 3),
        'ä"\\\n': flags.clone(),
    }


def test_a_file_with_every_dtype_comes_back_byte_for_byte(tmp_path, hold_files):
    path = tmp_path / "model.safetensors"
    safetensors.torch.save_file(every_dtype(), path, metadata={"format": "pt", "note": "ü"})
    held = hold_files(path)
    written = held.write(tmp_path / "out")
    assert written[0].read_bytes() == path.read_bytes()
    assert held.asked == list(range(len(held.data)))
    assert {leaf.path[1] for leaf in held.captured.leaves} == set(every_dtype())


def test_tensors_are_what_the_library_reads(tmp_path, hold_files):
    path = tmp_path / "model.safetensors"
    arrays = {"b": np.arange(6, dtype="<f4").reshape(2, 3), "a": np.array([[1, 2]], "<i8")}
    safetensors.numpy.save_file(arrays, path)
    held = hold_files(path)
    for leaf, data in zip(held.captured.leaves, held.data, strict=True):
        assert leaf.shape == arrays[leaf.path[1]].shape
        assert data == arrays[leaf.path[1]].tobytes()


def test_a_header_may_hold_any_text():
    header = json.dumps({"__metadata__": {"workflow": json.dumps([[]] * (1 << 20))}, "a": tensor()}).encode()
    assert [span.name for span in parse_header(header, 1)] == ["a"]
    with pytest.raises(FileFormatError, match="for 1 tensors"):
        parse_header(header.replace(b'": [2]', b'": [' + b"1," * (1 << 20) + b"1," * 99 + b"1]"), 1)


def test_a_long_header_is_a_blob(tmp_path, hold_files):
    path = tmp_path / "model.safetensors"
    safetensors.torch.save_file({f"layer.{i}": torch.tensor([i]) for i in range(500)}, path)
    held = hold_files(path)
    assert len(held.blobs) == 1
    assert held.write(tmp_path / "out")[0].read_bytes() == path.read_bytes()


def assembled(header, data=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def tensor(dtype="U8", shape=(2,), begin=0, end=2, **more):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end], **more}


@pytest.mark.parametrize(
    "content",
    [
        assembled(b"{}"),
        assembled(b"{}      "),
        assembled({"__metadata__": {"a": "b"}}),
        assembled({"a": tensor("F4", (2, 4), 0, 4)}, b"1234"),
        assembled({"a": tensor("F4", (4, 1), 0, 2)}, b"12"),
        assembled({"a": tensor("F6_E2M3", (4,), 0, 3)}, b"123"),
        assembled({"b": tensor(), "a": tensor("U8", (0,), 0, 0), "c": tensor("BOOL", (), 2, 3)}, b"12\x07"),
    ],
)
def test_unusual_but_valid_files_come_back_byte_for_byte(tmp_path, hold_files, content):
    path = tmp_path / "x.safetensors"
    path.write_bytes(content)
    assert hold_files(path).write(tmp_path / "out")[0].read_bytes() == content


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (assembled({"a": tensor(more=1)}, b"12"), "tensor 'a' has the unknown field 'more'"),
        (assembled({"a": tensor("F128"), "b": tensor()}, b"12"), "tensor 'a' has the unknown dtype 'F128'"),
        (assembled({"a": tensor(begin=1, end=3)}, b"123"), "tensor 'a' begins at data byte 1, not at 0"),
        (
            assembled({"a": tensor(), "b": tensor(begin=3, end=5)}, b"12345"),
            "begins at data byte 3, not at 2",
        ),
        (assembled({"a": tensor()}, b"123"), "bytes where its header describes"),
    ],
)
def test_a_header_that_says_more_than_the_format_has_is_kept(tmp_path, kept, content, message):
    path = tmp_path / "x.safetensors"
    path.write_bytes(content)
    assert message in kept(path)
    assert capture_files([path], tmp_path).leaves[0].source.read() in (b"12", b"23")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "it has 0 bytes"),
        (b"1234567", "it has 7 bytes"),
        (b"this is a text file\n", "announce a header of 2338"),
        (assembled(b"{}", length=100_000_001), "announce a header of 100000001 bytes"),
        (assembled(b"{}", length=3), "ends at byte 10, inside its header of 3 bytes"),
        (assembled(b" {}"), "does not begin with '{'"),
        (assembled(b"{\xff}"), "not UTF-8 at byte 9"),
        (assembled(b'{"a": }'), "not JSON at byte 14"),
        (assembled(b'{"a":NaN}'), "holds 'NaN'"),
        (assembled(b'{"a":' + b"[" * 100_000), "not JSON"),
        (assembled(b'{"a":' + b"9" * 5000 + b"}"), "not JSON"),
        (assembled(b'{"a":1,"a":1}'), "names something twice"),
        (assembled(b'{"a":[' + b"[]," * (1 << 20) + b"[]]}"), "more than 1048576 values, for 0 tensors"),
        (assembled({"__metadata__": {"a": 1}}), "does not map text to text"),
        (assembled({"a": 1}), "tensor 'a' is not described by"),
        (assembled({"a": tensor([])}, b"12"), "unknown dtype"),
        (assembled({"a": tensor(shape=(-2,))}, b"12"), "impossible shape"),
        (assembled({"a": tensor(shape=(1 << 60,))}, b"12"), "impossible shape"),
        (assembled({"a": tensor(shape=(True, 2))}, b"12"), "impossible shape"),
        (assembled({"a": tensor(shape=(3,))}, b"12"), "does not fill 2 bytes"),
        (assembled({"a": tensor("F4", (3,))}, b"12"), "does not fill 2 bytes"),
        (assembled({"a": tensor(begin=2, end=0)}, b"12"), "impossible data bytes 2 and 0"),
        (assembled({"a": tensor(begin=-2, end=0)}, b"12"), "impossible data bytes"),
        (assembled({"a": tensor(begin=0.0)}, b"12"), "does not have two data offsets"),
        (assembled({"a": tensor(), "b": tensor()}, b"12"), "begins at data byte 0, not at 2"),
        (assembled({"a": tensor()}, b"1"), "bytes where its header describes"),
    ],
)
def test_every_way_to_be_wrong_is_named(tmp_path, content, message):
    path = tmp_path / "x.safetensors"
    path.write_bytes(content)
    with pytest.raises(FileFormatError) as caught:
        capture_files([path], tmp_path)
    assert f"'{path}' is not a safetensors file: " in caught.value.message
    assert message in caught.value.message


VALID = safetensors.torch.save({"a": torch.arange(4.0), "b.weight": torch.ones(2, 2), "c": torch.tensor([1])})


@given(st.integers(0, 8 * (8 + struct.unpack("<Q", VALID[:8])[0]) - 1))
def test_a_flipped_bit_in_the_header_is_refused_or_comes_back(tmp_path_factory, bit):
    folder = tmp_path_factory.mktemp("flip")
    content = bytearray(VALID)
    content[bit // 8] ^= 1 << bit % 8
    (folder / "x.safetensors").write_bytes(content)
    try:
        captured = capture_files([folder / "x.safetensors"], folder)
    except FileFormatError:
        return
    (written,) = hold(captured).write(folder / "out")
    assert written.read_bytes() == content


@given(st.integers(0, len(VALID) - 1))
def test_a_truncated_file_is_refused(tmp_path_factory, length):
    folder = tmp_path_factory.mktemp("cut")
    (folder / "x.safetensors").write_bytes(VALID[:length])
    with pytest.raises(FileFormatError):
        capture_files([folder / "x.safetensors"], folder)


def test_a_file_that_changes_before_it_is_read_is_a_conflict(tmp_path):
    path = tmp_path / "x.safetensors"
    path.write_bytes(VALID)
    captured = capture_files([path], tmp_path)
    path.write_bytes(VALID + b"more")
    with pytest.raises(ConflictError, match="changed while it was read"):
        captured.leaves[0].source.read()


def test_a_commit_whose_header_lies_is_corruption(tmp_path, hold_files):
    path = tmp_path / "x.safetensors"
    path.write_bytes(VALID)
    held = hold_files(path)
    entry = held.tree.files[0]
    other = safetensors.torch.save(
        {"a": torch.arange(4.0), "b.weight": torch.ones(4), "c": torch.tensor([1])}
    )
    length = struct.unpack("<Q", other[:8])[0]
    for header in (other[8 : 8 + length], b"{}", b"nonsense", None):
        lying = FileEntry(entry.path, entry.format, entry.node, header)
        with pytest.raises(CorruptionError):
            write_file(lying, held.content, tmp_path / "out")
    with pytest.raises(CorruptionError, match="leaf 0 has 3 bytes"):
        write_file(entry, replace(held.content, leaves=lambda _: iter([b"abc"])), tmp_path / "out")


names = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=12)
shapes = st.lists(st.integers(0, 3), max_size=3).map(tuple)


@given(
    st.dictionaries(names, st.tuples(st.sampled_from([DTYPES[name] for name in KINDS]), shapes), max_size=6)
)
def test_a_header_reads_back_as_it_was_built(tensors):
    header, begins = build_header(tensors)
    spans = {span.name: span for span in parse_header(header)}
    assert {name: span.begin for name, span in spans.items()} == begins
    assert {name: span.dtype for name, span in spans.items()} == {
        n: dtype for n, (dtype, _) in tensors.items()
    }
    packed = {
        name for name, (dtype, shape) in tensors.items() if dtype.name == "float4_e2m1fn_x2" and not shape
    }
    for name in tensors.keys() - packed:
        assert spans[name].shape == tensors[name][1]
