"""Tensors of every form come back, and parts that do not fit together are corruption."""

from dataclasses import replace

import numpy as np
import pytest

from mvcs.errors import CorruptionError
from mvcs.objects.chunk_grid import DTYPES
from mvcs.objects.forms import Derived, Lattice, LogLattice, RootLattice
from mvcs.objects.ids import Kind, digest, object_id
from mvcs.objects.tensors import QuantizedTensor
from mvcs.quantize import LogGrid, Restorer, from_float32, lattice_codes, root_codes, root_values, to_float32
from mvcs.quantize.outliers import joined
from tests.format import examples

WIDTHS = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}


class Shelf:
    """Chunks and tensors in memory."""

    def __init__(self):
        self.chunks = dict(examples.CHUNKS)
        self.restorer = Restorer(self.chunks.__getitem__)

    def put(self, content):
        identifier = object_id(Kind.CHUNK, content)
        self.chunks[identifier] = content
        return identifier

    def store(self, dtype, shape, form, codes, elements):
        marks = joined(codes, elements, DTYPES[dtype].itemsize)
        mark = self.put(marks) if marks else None
        return self.add(QuantizedTensor(DTYPES[dtype], shape, 2, form, (self.put(codes.tobytes()),), (mark,)))

    def add(self, tensor):
        """Add a tensor, with the digests of what it restores to."""
        unseen = replace(tensor, digests=b"")
        parts = (self.restorer.restore(unseen, index) for index in range(tensor.chunk_count))
        return replace(tensor, digests=b"".join(map(digest, parts)))


@pytest.fixture
def shelf():
    return Shelf()


SPECIAL = np.array([np.nan, np.inf, -np.inf, 1e-45, 0, -0.0], np.float32)


@pytest.mark.parametrize("dtype", WIDTHS)
def test_a_lattice_comes_back_with_its_exceptions(shelf, dtype):
    values = np.concatenate([np.random.default_rng(0).standard_normal(500).astype(np.float32), SPECIAL])
    elements = from_float32(values, dtype)
    values = to_float32(elements, dtype)
    tensor = shelf.store(dtype, (values.size,), Lattice(216), lattice_codes(values, 216), elements)
    restored = shelf.restorer.restore(tensor, 0)
    assert (
        restored[-6 * WIDTHS[dtype] : -3 * WIDTHS[dtype]] == elements[-6 * WIDTHS[dtype] : -3 * WIDTHS[dtype]]
    )
    assert np.nanmax(np.abs(to_float32(restored, dtype)[:500] - values[:500])) <= 0.5 / 16 * 1.01


@pytest.mark.parametrize("dtype", WIDTHS)
def test_values_that_may_be_put_into_memory_are_the_same(shelf, dtype):
    elements = from_float32(np.random.default_rng(0).standard_normal(500).astype(np.float32), dtype)
    codes = lattice_codes(to_float32(elements, dtype), 216)
    tensor = shelf.store(dtype, (500,), Lattice(216), codes, elements)
    memory = bytearray(len(elements))
    restored = shelf.restorer.restore(tensor, 0, memoryview(memory))
    assert bytes(restored) == bytes(shelf.restorer.restore(tensor, 0))
    assert bytes(memory) in (bytes(restored), bytes(len(elements)))


@pytest.mark.parametrize("dtype", WIDTHS)
@pytest.mark.parametrize("bare", [False, True])
def test_moments_come_back(shelf, dtype, bare):
    random = np.random.default_rng(1)
    seconds = np.exp2(random.standard_normal(1200) - 8).astype(np.float32)
    elements = from_float32(seconds, dtype)
    seconds = to_float32(elements, dtype)
    grid = LogGrid.fit([seconds], (40, 30), 23)
    form = LogLattice(23, shelf.put(grid.rows.tobytes()), shelf.put(grid.cols.tobytes()))
    tensor = shelf.store(dtype, (40, 30), form, grid.codes(seconds), elements)
    if bare:
        tensor = shelf.add(replace(tensor, codes=(), exceptions=()))
    restored = to_float32(shelf.restorer.restore(tensor, 0), dtype)
    expected = grid.values(None if bare else grid.codes(seconds), 1200)
    assert np.array_equal(restored, to_float32(from_float32(expected, dtype), dtype))
    firsts = (random.standard_normal(1200) * 0.03).astype(np.float32)
    codes = root_codes(firsts, restored, 228)
    first = shelf.store(dtype, (40, 30), RootLattice(228, tensor), codes, from_float32(firsts, dtype))
    assert shelf.restorer.restore(first, 0) == from_float32(root_values(codes, restored, 228), dtype)


def test_a_running_variance_needs_no_offsets(shelf):
    values = np.abs(np.random.default_rng(2).standard_normal(64)).astype(np.float32)
    values[3] = 0
    codes = LogGrid(16, 1).codes(values)
    tensor = shelf.store("float32", (64,), LogLattice(16), codes, values.tobytes())
    restored = to_float32(shelf.restorer.restore(tensor, 0), "float32")
    assert np.all(np.abs(restored - values) <= values / 256)


def test_chunks_of_a_tensor_know_their_place(shelf):
    """A matrix of which a row lies in two chunks."""
    shape, run = (3, 2**21), 2**22
    values = np.resize(np.array([1e-5, 2e-5, 1e-3], np.float32), shape).astype(np.float32)
    values[2] *= np.float32(64)
    flat = values.reshape(-1)
    grid = LogGrid(
        24, shape[1], np.array([400, 404, 410], np.int16), np.resize([0, 2, -1], shape[1]).astype("<i2")
    )
    codes = grid.codes(flat)
    form = LogLattice(24, shelf.put(grid.rows.tobytes()), shelf.put(grid.cols.tobytes()))
    parts = [shelf.put(part.tobytes()) for part in (codes[:run], codes[run:])]
    tensor = shelf.add(QuantizedTensor(DTYPES["float32"], shape, 2, form, tuple(parts), (None, None)))
    restored = b"".join(shelf.restorer.restore(tensor, index) for index in range(2))
    assert restored == grid.values(codes, flat.size).tobytes()


def test_a_copy_in_half_precision_is_its_source_rounded(shelf):
    values = np.random.default_rng(3).standard_normal(100).astype(np.float32)
    source = shelf.store("float32", (100,), Lattice(190), lattice_codes(values, 190), values.tobytes())
    exact = to_float32(shelf.restorer.restore(source, 0), "float32")
    for dtype in ("float16", "bfloat16"):
        copy = shelf.add(QuantizedTensor(DTYPES[dtype], (100,), 0, Derived(source)))
        assert shelf.restorer.restore(copy, 0) == from_float32(exact, dtype)


def test_other_values_than_the_writers_are_corruption(shelf):
    """As a reader makes them that fuses a multiplication, or rounds otherwise: the codes are whole."""
    values = np.random.default_rng(4).standard_normal(100).astype(np.float32)
    whole = shelf.store("float32", (100,), Lattice(190), lattice_codes(values, 190), values.tobytes())
    restored = bytearray(shelf.restorer.restore(whole, 0))
    restored[-1] ^= 1
    other = replace(whole, digests=digest(restored))
    with pytest.raises(CorruptionError, match="other values than its digest says"):
        shelf.restorer.restore(other, 0)


def test_the_root_of_a_tensor_is_held_to_its_digest_as_well(shelf):
    second = replace(RANK_ONE, digests=bytes(16))
    first = replace(examples.ROOT, parameters=RootLattice(229, second))
    with pytest.raises(CorruptionError, match="other values"):
        shelf.restorer.restore(first, 0)


CHUNK, RANK_ONE = examples.chunk, examples.RANK_ONE


@pytest.mark.parametrize(
    "make",
    [
        lambda shelf: replace(examples.LATTICE, codes=(shelf.put(CHUNK(3, -2, 0)),)),
        lambda shelf: replace(examples.LATTICE, codes=(shelf.put(CHUNK(3, -2, 0, 1)),)),
        lambda shelf: replace(examples.LATTICE, codes=(shelf.put(CHUNK(3, -2, -32768, 0)),)),
        lambda _: replace(examples.LATTICE, exceptions=(None,)),
        lambda shelf: replace(examples.LOG_LATTICE, exceptions=(shelf.put(b""),)),
        lambda shelf: replace(examples.LATTICE, exceptions=(shelf.put(b"1234567"),)),
        lambda shelf: replace(examples.LATTICE, exceptions=(shelf.put(bytes(16)),)),
        lambda shelf: replace(
            RANK_ONE, parameters=LogLattice(23, shelf.put(CHUNK(1)), RANK_ONE.parameters.cols)
        ),
        lambda shelf: replace(RANK_ONE, parameters=LogLattice(23, RANK_ONE.parameters.rows, shelf.put(b""))),
        lambda shelf: replace(
            RANK_ONE, parameters=LogLattice(23, RANK_ONE.parameters.rows, shelf.put(b"odd"))
        ),
    ],
)
def test_parts_that_do_not_fit_together_are_corruption(shelf, make):
    with pytest.raises(CorruptionError):
        shelf.restorer.restore(make(shelf), 0)


def test_only_a_log_lattice_has_a_grid(shelf):
    assert shelf.restorer.log_grid(RANK_ONE).rows[0] == 426
    with pytest.raises(CorruptionError):
        shelf.restorer.log_grid(examples.LATTICE)


def test_a_second_moment_that_a_first_one_needed_is_decoded_once(shelf):
    values = np.random.default_rng(1).standard_normal(300).astype(np.float32)
    grid, asked = LogGrid(20), []
    second = shelf.store("float32", (300,), LogLattice(20), grid.codes(values**2), (values**2).tobytes())
    roots = to_float32(shelf.restorer.restore(second, 0), "float32")
    form = RootLattice(216, second)
    first = shelf.store("float32", (300,), form, root_codes(values, roots, 216), values.tobytes())

    def chunk(identifier):
        asked.append(identifier)
        return shelf.chunks[identifier]

    def restored(has_room):
        asked.clear()
        restorer = Restorer(chunk, has_room)
        return [bytes(restorer.restore(tensor, 0)) for tensor in (first, second, first, second)]

    with_room, needed = restored(lambda count: count == 1200), list(asked)
    assert needed == [first.codes[0], second.codes[0]] * 2
    assert restored(lambda _: False) == with_room
    assert asked == [first.codes[0], second.codes[0], second.codes[0]] * 2
    assert with_room[1] == roots.tobytes()
