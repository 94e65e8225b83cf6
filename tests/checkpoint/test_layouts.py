"""Files come back byte for byte, whoever wrote them; a layout that does not fit its tensors is corruption."""

import argparse
import hashlib
import io
import json
import logging
import pathlib
import struct
import warnings
import zipfile
from collections import OrderedDict
from contextlib import suppress

import numpy as np
import pytest
import safetensors.torch
import torch
import torch.distributed.checkpoint as dcp
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.serialization import config

from mvcs.checkpoint.files import capture_files, write_file
from mvcs.checkpoint.formats.layout import _mend_checksums
from mvcs.checkpoint.state.state import ContentReader
from mvcs.errors import CorruptionError, MvcsError, UnsupportedFormatError
from mvcs.objects import cbor
from mvcs.objects.chunk_grid import DTYPES
from mvcs.objects.ids import Kind, object_id
from mvcs.objects.tensors import ExactTensor
from mvcs.objects.trees.leaves import FileEntry, FileFormat, Leaf
from mvcs.objects.trees.tree import Tree
from mvcs.repository import Repository
from tests.checkpoint.conftest import hold

MANY = 3000


def tensors():
    generator = torch.Generator().manual_seed(0)
    big = torch.randn(60, 60, generator=generator)
    return {
        "w": big,
        "tied": big,
        "turned": torch.randn(50, 70, generator=generator).t(),
        "images": torch.randn(8, 3, 5, 5, generator=generator).to(memory_format=torch.channels_last),
        "part": torch.randn(60, 60, generator=generator)[3:5],
        "strided": torch.randn(60, 60, generator=generator)[:, ::2],
        "half": big.bfloat16(),
        "conj": torch.randn(40, 40, dtype=torch.complex64, generator=generator).conj(),
        "bool": torch.arange(10) > 4,
        "none": torch.empty(0, 3),
        "zeros": torch.zeros(5),
        "other zeros": torch.zeros(5),
        "step": torch.tensor(3.0),
    }


def saved(value, **options):
    buffer = io.BytesIO()
    torch.save(value, buffer, **options)
    return buffer.getvalue()


def aligned(value):
    config.save.storage_alignment = 4096
    try:
        return saved(value)
    finally:
        config.save.storage_alignment = 64


def without_checksums(value):
    torch.serialization.set_crc32_options(False)
    try:
        return saved(value)
    finally:
        torch.serialization.set_crc32_options(True)


def big_endian(value):
    """What a machine of the other byte order writes."""
    torch.serialization.set_default_load_endianness(None)
    source, target = zipfile.ZipFile(io.BytesIO(saved(value))), io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name in source.namelist():
            data = source.read(name)
            if name.endswith("/byteorder"):
                data = b"big"
            elif "/data/" in name:
                data = np.frombuffer(data, "<u4").byteswap().tobytes()
            archive.writestr(name, data)
    return target.getvalue()


def arrays(save, **more):
    buffer = io.BytesIO()
    found = {"a": np.arange(MANY, dtype="<f4").reshape(30, -1), "big": np.arange(9.0).astype(">f8"), **more}
    save(buffer, turned=np.asfortranarray(found["a"]), none=np.empty((0, 2)), **found)
    return buffer.getvalue()


def shards(*contents):
    return b"".join(map(saved, contents))


STATE = {"model": OrderedDict(tensors()), "step": 7, "note": "n" * 9000}
PLAIN = {
    "torch.pt": saved(STATE),
    "older.pt": saved(STATE, _use_new_zipfile_serialization=False),
    "aligned.ckpt": aligned(STATE),
    "unchecked.pth": without_checksums(STATE),
    "big.pt": big_endian({"w": torch.arange(MANY, dtype=torch.float32), "b": torch.ones(3)}),
    "shared.npz": arrays(np.savez),
    "packed.npz": arrays(np.savez_compressed),
}
ODD = {
    "tuple.pt": saved({**STATE, ("a", 1): torch.ones(MANY)}),
    "path.ckpt": saved({**STATE, "folder": pathlib.PurePosixPath("/data")}),
    "arguments.pt": saved({**STATE, "args": argparse.Namespace(lr=torch.ones(3))}),
    "arguments4.pt": saved({**STATE, "args": argparse.Namespace(lr=1)}, pickle_protocol=4),
    "numpy.pt": saved({**STATE, "best": np.float64(1), "seen": np.arange(4)}),
    "older.bin": saved({**STATE, "args": argparse.Namespace()}, _use_new_zipfile_serialization=False),
    "module.pt": saved(torch.nn.Sequential(torch.nn.Linear(30, 40), torch.nn.BatchNorm1d(40))),
    "protocol4.pt": saved(STATE, pickle_protocol=4),
    "sparse.pt": saved({"w": torch.ones(MANY), "s": torch.eye(50).to_sparse()}),
    "__0_0.distcp": shards(torch.ones(MANY), torch.arange(50.0), "text"),
    "text packed.npz": arrays(np.savez_compressed, names=np.array(["a", "bb"])),
    "text.npz": arrays(np.savez, names=np.array(["a", "bb"]), objects=np.array([{}, 1], dtype=object)),
}


@pytest.mark.parametrize("name", [*PLAIN, *ODD])
def test_a_file_comes_back_byte_for_byte(tmp_path, hold_files, name):
    path = tmp_path / name
    path.write_bytes({**PLAIN, **ODD}[name])
    held = hold_files(path)
    assert (held.tree.files[0].format is FileFormat.BINARY) == (name in ODD)
    assert held.write(tmp_path / "out")[0].read_bytes() == path.read_bytes()


@pytest.mark.parametrize("name", sorted(set(ODD) - {"text packed.npz"}))
def test_an_odd_value_keeps_no_tensor_from_being_one(tmp_path, hold_files, name):
    (tmp_path / name).write_bytes(ODD[name])
    held = hold_files(tmp_path / name)
    layout = held.content.bytes_of(held.tree.files[0].header)
    tensors_there = sum(leaf.raw_bytes for leaf in held.tree.leaves)
    strided = 60 * 60 * 4 if "model" in str(held.tree.leaf_paths()) else 0
    assert len(layout) + tensors_there - strided < 1.1 * len(ODD[name])


def test_a_layout_takes_less_than_a_hundredth(tmp_path, hold_files):
    model = torch.nn.Sequential(*(torch.nn.Linear(200, 200) for _ in range(10)))
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 200)).sum().backward()
    optimizer.step()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "x.pt")
    held = hold_files(tmp_path / "x.pt")
    packed = zipfile.zlib.compress(held.content.bytes_of(held.tree.files[0].header))
    assert len(packed) < 0.01 * (tmp_path / "x.pt").stat().st_size


def test_a_folder_of_distributed_checkpoints_loads_again(tmp_path):
    logging.getLogger("torch.distributed").setLevel(logging.ERROR)
    state = {"w": torch.randn(300, 20), "v": torch.randn(40, 40), "step": 4}
    config.save.storage_alignment = 4096
    try:
        with warnings.catch_warnings(), Repository.init(tmp_path) as repo:
            warnings.simplefilter("ignore")
            for name, content in (("one", {"w": state["w"]}), ("many", state)):
                folder = tmp_path / name
                dcp.save(content, checkpoint_id=folder, no_dist=True)
                repo.commit_files([folder], message=name)
                for path in folder.iterdir():
                    path.unlink()
                repo.restore_files([folder])
                found = {"w": torch.zeros(300, 20)}
                dcp.load(found, checkpoint_id=folder, no_dist=True)
                assert torch.equal(found["w"], state["w"])
    finally:
        config.save.storage_alignment = 64


def test_checksums_beside_files_hold_after_a_restore(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    for name, content in {**PLAIN, **ODD}.items():
        (folder / name).write_bytes(content)
    safetensors.torch.save_file({"w": torch.ones(9)}, folder / "a.safetensors", metadata={"a": "b"})
    (folder / "index.json").write_text(json.dumps({"weight_map": {"w": "a.safetensors"}}))
    sums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
    (folder / "SHA256SUMS").write_text("".join(f"{found}  {name}\n" for name, found in sums.items()))
    with Repository.init(tmp_path) as repo:
        repo.commit_files([folder], message="kept")
        assert {entry.state for entry in repo.status().entries} == {"unmodified"}
        for path in folder.iterdir():
            path.unlink()
        repo.restore_files([folder])
        assert {entry.state for entry in repo.status().entries} == {"unmodified"}
    for name, found in sums.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == found, name


@pytest.mark.parametrize(
    "name",
    ["torch.pt", "aligned.ckpt", "older.pt", "tuple.pt", "shared.npz", "packed.npz", "text packed.npz"],
)
def test_a_bounded_file_is_laid_out_as_it_was_with_right_checksums(tmp_path, name):
    path = tmp_path / name
    path.write_bytes({**PLAIN, **ODD}[name])
    with Repository.init(tmp_path) as repo:
        repo.commit_files([path], message="bounded", step_size=0.5)
        repo.checkout_files("HEAD", force=True)
        repo.checkout_files("HEAD", exact=False, force=True)
        path.touch()
        assert {entry.state for entry in repo.status().entries} == {"unmodified"}
    before = {**PLAIN, **ODD}[name]
    assert (path.read_bytes() == before) == (name == "text packed.npz")
    if name != "older.pt":
        with zipfile.ZipFile(path) as archive:
            assert archive.testzip() is None
    if "packed" not in name:
        assert path.stat().st_size == len(before)
    if path.suffix == ".npz":
        found, expected = np.load(path)["a"], np.arange(MANY).reshape(30, -1)
    else:
        found, expected = torch.load(path, weights_only=False)["model"]["w"], tensors()["w"]
    error = np.abs(np.asarray(found) - np.asarray(expected)).max()
    assert (0 < error < 0.1 * MANY) == (name != "text packed.npz")


VALUES = struct.pack("<ff", 1, -2)


def with_layout(layout, folder):
    tensor = ExactTensor(DTYPES["float32"], (2,), (object_id(Kind.CHUNK, VALUES),))
    entry = FileEntry("x", FileFormat.BINARY, [2, [["a", [9, 0, 0]]]], layout)
    tree = Tree.decode(Tree((Leaf(tensor),), files=(entry,)).encode())
    content = ContentReader(tree, lambda _: iter([VALUES]), lambda *_: b"", lambda *_: iter(()))
    write_file(tree.files[0], content, folder / "x")
    return (folder / "x").read_bytes()


def layout_of(*pieces, others=b"", length=None):
    table = cbor.dumps(list(pieces))
    return struct.pack("<Q", len(table) if length is None else length) + table + others


def test_what_is_deflated_is_deflated_again(tmp_path):
    packer = zipfile.zlib.compressobj(9, zipfile.zlib.DEFLATED, -15)
    stream = packer.compress(b"ab" + VALUES) + packer.flush()
    piece = [1, 0, None, 0, 2, 9, len(stream), zipfile.zlib.crc32(stream)]
    assert with_layout(layout_of(piece, others=b"<ab>"), tmp_path) == b"<" + stream + b">"


@pytest.mark.parametrize(
    "layout",
    [
        b"",
        b"\0" * 7,
        layout_of(length=1 << 62),
        layout_of([0, 0, None, 0], length=9),
        layout_of([1, 0, None, 0]),
        layout_of([1 << 61, 0, None, 0], others=b"x"),
        layout_of([0, 0, None, 0], [0, 0, None, 0]),
        layout_of([0, 1, None, 0]),
        layout_of([0, -1, None, 0]),
        layout_of([0, 0, [], 0]),
        layout_of([0, 0, [1], 0]),
        layout_of([0, 0, ["a"], 0]),
        layout_of([0, 0, None, 3]),
        layout_of([0, 0, None, 8]),
        layout_of([0, 0, None]),
        layout_of([0, 0, None, 0, 0, 10, 9, 9]),
        layout_of([0, 0, None, 0, 1 << 40, 9, 9, 9]),
        layout_of(*[[0, 0, None, 0]] * 99),
        layout_of(5),
        layout_of(*[0] * 200),
    ],
)
def test_a_layout_that_does_not_fit_is_corruption(tmp_path, layout):
    with pytest.raises(CorruptionError):
        with_layout(layout, tmp_path)


def test_a_stream_that_comes_out_otherwise_is_said_to(tmp_path):
    with pytest.raises(UnsupportedFormatError, match="zlib of here"):
        with_layout(layout_of([0, 0, None, 0, 0, 9, 9, 9]), tmp_path)


@pytest.mark.parametrize("field", [16, 20, 24, 28, 30, 32, 42])
@pytest.mark.parametrize("number", [0, 1, 60, 1 << 15, 0xFFFF, 0xFFFFFFF0, 0xFFFFFFFF])
def test_an_archive_that_claims_anything_is_left_alone(tmp_path, field, number):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a", bytes(50))
        archive.writestr("b", VALUES)
    content = bytearray(buffer.getvalue())
    place = content.index(b"PK\x01\x02") + field
    width = 2 if field in (28, 30, 32) else 4
    content[place : place + width] = (number % (1 << 8 * width)).to_bytes(width, "little")
    (tmp_path / "x").write_bytes(content)
    with (tmp_path / "x").open("r+b") as file:
        _mend_checksums(file)
    assert (tmp_path / "x").stat().st_size == len(content)


DIRECTORY = struct.Struct("<4s4B4HL2L5H2L")


def archive_of(entry, count, front):
    end = struct.pack(
        "<4s4H2LH", b"PK\5\6", 0, 0, count % 65536, count % 65536, len(entry) * count, len(front), 0
    )
    return io.BytesIO(front + entry * count + end)


@pytest.mark.parametrize("size", [1, 12, 30])
@pytest.mark.parametrize("offset", range(0, 200, 2))
def test_a_member_that_lies_in_the_directory_is_left_alone(offset, size):
    entry = DIRECTORY.pack(b"PK\1\2", 20, 0, 20, 0, 0, 0, 0, 0, 1, size, size, 0, 0, 0, 0, 0, 0, offset)
    file = archive_of(entry, 4, bytes(30) + b"\x9d\x0a\xd9\x6d" * 3)
    before = file.getvalue()
    _mend_checksums(file)
    assert len(file.getvalue()) == len(before)


def test_an_archive_of_more_members_than_a_file_of_tensors_has_is_left_alone():
    entry = DIRECTORY.pack(b"PK\1\2", 20, 0, 20, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    file = archive_of(entry, 100_000, bytes(30))
    before = file.getvalue()
    _mend_checksums(file)
    assert file.getvalue() == before


@given(st.binary(max_size=60), st.integers(0, 8 * 60))
def test_no_bytes_of_a_layout_raise_something_else(tmp_path_factory, tail, bit):
    layout = bytearray(layout_of([1, 0, [0], 2], others=b"x") + tail)
    layout[bit // 8 % len(layout)] ^= 1 << bit % 8
    with suppress(MvcsError):
        assert len(with_layout(bytes(layout), tmp_path_factory.mktemp("flip"))) <= len(layout) + len(VALUES)


@given(st.sampled_from(sorted(ODD)), st.integers(0, 1 << 20), st.integers(0, 255))
def test_an_odd_file_with_a_damaged_byte_is_kept_or_refused(tmp_path_factory, name, place, byte):
    folder = tmp_path_factory.mktemp("odd")
    content = bytearray(ODD[name])
    content[place % min(len(content), 3000)] = byte
    (folder / name).write_bytes(content)
    try:
        held = hold(capture_files([folder / name], folder))
    except MvcsError:
        return
    assert held.write(folder / "out")[0].read_bytes() == content
