"""npz archives come back with the same arrays; objects are never unpickled."""

import io
import itertools
import os
import tracemalloc
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mvcs.checkpoint.files import capture_files
from mvcs.errors import FileFormatError, LimitError, MvcsError
from tests.checkpoint.conftest import hold

ARRAYS = {
    "layers/0.weight": np.arange(12, dtype="<f4").reshape(3, 4),
    "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "big": np.arange(4, dtype=">i4"),
    "scalar": np.array(2.5),
    "empty": np.empty((0, 2), "<f2"),
    "flags": np.array([True, False]),
    "complex": np.array([1j, np.nan]),
}


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_an_archive_comes_back_with_the_same_arrays(tmp_path, hold_files, save):
    path = tmp_path / "arrays.npz"
    save(path, **ARRAYS)
    held = hold_files(path)
    with np.load(held.write(tmp_path / "out")[0], allow_pickle=False) as loaded:
        assert loaded.files == list(ARRAYS)
        for name, array in ARRAYS.items():
            assert loaded[name].dtype == array.dtype
            assert loaded[name].shape == array.shape
            assert loaded[name].tobytes() == array.tobytes()
    assert held.asked == [number for number, array in enumerate(ARRAYS.values()) if array.size]
    assert (tmp_path / "out" / "arrays.npz").read_bytes() == path.read_bytes()


def test_an_array_is_read_without_the_list_of_all(tmp_path, monkeypatch):
    path = tmp_path / "x.npz"
    np.savez_compressed(path, **ARRAYS)
    leaves = capture_files([path], tmp_path).leaves
    monkeypatch.setattr(zipfile, "ZipFile", None)
    for leaf, array in zip(leaves, ARRAYS.values(), strict=True):
        assert b"".join(leaf.source.parts(8)) == leaf.source.read()
        assert leaf.raw_bytes == array.nbytes


class Touch:
    """Creates a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (os.system, (f"touch {self.path}",))


def test_object_arrays_are_kept_and_not_unpickled(tmp_path, kept):
    path = tmp_path / "x.npz"
    np.savez(path, weights=np.ones(2), hook=np.array([Touch(tmp_path / "ran")], dtype=object))
    assert "holds pickled objects in 'hook'; nothing was run" in kept(path)
    assert [leaf.path for leaf in capture_files([path], tmp_path).leaves] == [("x.npz", "weights")]
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("array", [np.array(["text"]), np.zeros(2, "M8[s]"), np.zeros(2, [("a", "<i4")])])
def test_arrays_without_numbers_are_named(tmp_path, array, kept):
    path = tmp_path / "x.npz"
    np.savez(path, strange=array)
    assert "x.npz.strange: a numpy array of type" in kept(path)


def archive(members, compression=zipfile.ZIP_STORED):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as target:
        for name, data in members.items():
            target.writestr(name, data)
    return buffer.getvalue()


def npy(shape="(2,)", data=bytes(16)):
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data


def saved():
    buffer = io.BytesIO()
    np.savez_compressed(buffer, a=np.arange(100.0), b=np.ones((2, 2), "<f4"))
    return buffer.getvalue()


VALID = saved()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"text",
        VALID[:-10],
        VALID[:50],
        archive({"a.npy": b"nonsense"}),
        archive({"a.npy": npy()[:40]}),
        archive({"a.npy": npy(data=bytes(15))}),
        archive({"a.npy": npy(data=bytes(17))}),
        archive({"a.npy": npy("(1<<40,)")}),
        archive({"a.npy": npy("(-2,)")}),
        archive({"a.npy": npy("(-1, -2)")}),
        archive({"a.npy": npy("(0, 1 << 60)", b"")}),
        archive({"a.npy": npy(f"(0, {1 << 60})", b"")}),
        archive({"a.npy": npy(f"({'1, ' * 65})", bytes(8))}),
        archive({"a.npy": npy(f"({'-' * 5000}1,)")}),
        archive({"a.npy": npy(f"({'[' * 3000}1,)")}),
        archive({"a.npy": npy("__import__('os')")}),
        archive({"a.npy": npy()}, zipfile.ZIP_LZMA),
    ],
    ids=itertools.count(),
)
def test_what_is_no_archive_of_arrays_is_refused(tmp_path, content):
    path = tmp_path / "x.npz"
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match="is not an npz archive"):
        capture_files([path], tmp_path)


@given(
    st.lists(
        st.one_of(st.integers(-3, 3), st.sampled_from([True, 1 << 56, 1 << 63, -(1 << 62)])), max_size=4
    ),
    st.integers(0, 4),
    st.text("a/.é\n", max_size=3),
)
def test_what_is_captured_can_be_read_again(tmp_path_factory, shape, count, name):
    folder = tmp_path_factory.mktemp("odd")
    text = f"({''.join(f'{size},' for size in shape)})"
    (folder / "x.npz").write_bytes(archive({f"{name}.npy": npy(text, bytes(8 * count))}))
    try:
        captured = capture_files([folder / "x.npz"], folder)
    except MvcsError:
        return
    held = hold(captured)
    (written,) = held.write(folder / "out")
    assert [leaf.shape for leaf in capture_files([written], folder).leaves] == [tuple(map(int, shape))]


def test_a_name_that_cannot_be_written_again_is_kept(tmp_path, kept):
    path = tmp_path / "x.npz"
    path.write_bytes(archive({f"{'x' * 60_001}.npy": npy()}))
    assert "an array of such a name cannot be stored" in kept(path)


def test_members_that_are_no_arrays_are_named(tmp_path, kept):
    path = tmp_path / "x.npz"
    path.write_bytes(archive({"readme.txt": b"hello"}))
    assert "x.npz.readme.txt: a member that is not an array" in kept(path)


@given(st.integers(0, 8 * len(VALID) - 1))
def test_a_flipped_bit_never_gives_other_numbers(tmp_path_factory, bit):
    folder = tmp_path_factory.mktemp("flip")
    content = bytearray(VALID)
    content[bit // 8] ^= 1 << bit % 8
    (folder / "x.npz").write_bytes(content)
    try:
        captured = capture_files([folder / "x.npz"], folder)
        read = {leaf.shape: leaf.source.read().tobytes() for leaf in captured.leaves}
    except MvcsError:
        return
    assert read.get((100,), np.arange(100.0).tobytes()) == np.arange(100.0).tobytes()


def test_arrays_by_columns_and_big_endian_ones_are_read_in_parts(tmp_path):
    path = tmp_path / "x.npz"
    rows = np.arange(3 * 5 * 7).reshape(3, 5, 7)
    saved = {
        "columns": np.asfortranarray(rows.astype("<f4")),
        "big columns": np.asfortranarray(rows.astype(">f8")),
        "big": rows.astype(">c16"),
        "turned": rows.astype("<i2").transpose(2, 0, 1).copy(order="F"),
    }
    np.savez_compressed(path, **saved)
    for leaf in capture_files([path], tmp_path).leaves:
        array = saved[leaf.path[1]]
        expected = array.astype(array.dtype.newbyteorder("<")).tobytes()
        assert b"".join(leaf.source.parts(array.itemsize * 8)) == expected
        assert leaf.source.read() == expected


def test_an_array_by_columns_is_held_once(tmp_path):
    path = tmp_path / "x.npz"
    np.savez_compressed(path, w=np.zeros((1 << 12, 1 << 10), order="F"))
    tracemalloc.start()
    try:
        (leaf,) = capture_files([path], tmp_path).leaves
        sizes = [part.nbytes for part in leaf.source.parts(1 << 20)]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sizes == [1 << 20] * 32
    assert peak < 1.25 * sum(sizes)


def test_an_array_by_columns_that_memory_cannot_hold_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "x.npz"
    np.savez(path, w=np.zeros((100, 100), order="F"))
    monkeypatch.setattr("mvcs.checkpoint.formats.npz_file.machine_memory", lambda: 10_000)
    with pytest.raises(LimitError, match=r"x\.npz' holds 'w' by columns: its .* bytes do not fit in memory"):
        capture_files([path], tmp_path)
