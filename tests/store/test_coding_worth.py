"""Exact chunks stay as they are while the disk is faster than their coding."""

import pathlib

import numpy as np
import pytest

from mvcs import Repository
from mvcs.delta.element import ElementFormat
from mvcs.delta.encoding import Encoding
from mvcs.objects.ids import Kind
from mvcs.store.backend import open_backend
from mvcs.store.reading.objects import ObjectStore
from mvcs.store.writing.coding_worth import CodingWorth
from mvcs.store.writing.writer import ObjectWriter

MEGABYTE = 1 << 20
FAST, SLOW = 2e-4, 2e-2  # seconds for a megabyte written


def measured(writing: float, coding: float = 1e-3, share: float = 0.8, megabytes: int = 64) -> CodingWorth:
    worth = CodingWorth()
    for _ in range(megabytes):
        worth.note_coded(MEGABYTE, int(share * MEGABYTE), coding)
        worth.note_written(MEGABYTE, writing)
    return worth


@pytest.mark.parametrize(
    ("worth", "outruns"),
    [
        (measured(FAST), True),
        (measured(SLOW), False),
        (measured(FAST, megabytes=8), False),  # not enough is known
        (measured(FAST, share=1.1), True),  # coding gained nothing
        (measured(SLOW, coding=1e-5, share=0.1), False),
    ],
)
def test_what_takes_less_time_wins(worth: CodingWorth, outruns: bool) -> None:
    assert worth.outruns is outruns


def test_a_disk_that_slows_down_is_noticed() -> None:
    worth = measured(FAST)
    for _ in range(4 << 10):
        worth.note_written(MEGABYTE, SLOW)
    assert not worth.outruns


@pytest.mark.parametrize(("writing", "encoding"), [(FAST, Encoding.RAW), (SLOW, Encoding.RANS_PLANES)])
def test_chunks_are_stored_as_measured(tmp_path: pathlib.Path, writing: float, encoding: Encoding) -> None:
    values = np.random.default_rng(0).standard_normal(3 * MEGABYTE).astype(np.float32)
    content = values.view(np.uint8).data
    store = ObjectStore(open_backend(str(tmp_path)))
    writer = ObjectWriter(store, exact=True, worth=measured(writing))
    identifier = writer.put_chunk(content, ElementFormat(4, floating=True))
    small = writer.put_chunk(content[:4096], ElementFormat(4, floating=True))
    writer.finish()
    again = ObjectStore(open_backend(str(tmp_path)))
    footer = again.catalog.attach(writer.packs[0], exact=True)
    assert [placed.entry.encoding for placed in footer.entries if identifier in placed.ids] == [encoding]
    assert all(placed.entry.encoding is not Encoding.RAW for placed in footer.entries if small in placed.ids)
    assert again.read(Kind.CHUNK, identifier, exact=True) == content
    assert again.read(Kind.CHUNK, small, exact=True) == content[:4096]


@pytest.mark.parametrize("coding", ["auto", "always"])
def test_a_large_layer_comes_back_bit_for_bit(tmp_path: pathlib.Path, coding: str) -> None:
    repository = Repository.init(tmp_path)
    repository.config_set("retention.exact_coding", coding)
    draw = np.random.default_rng(1)
    state = {f"w{i}": draw.standard_normal((1024, 2048)).astype(np.float32) for i in range(6)}
    first = repository.commit(state, step_size=0.5)
    assert first.exact_bytes < 1.1 * 6 * 1024 * 2048 * 4
    if coding == "always":
        assert first.exact_bytes < 0.9 * 6 * 1024 * 2048 * 4
    restored = repository.checkout("HEAD", exact=True, numpy=True)
    assert all(np.array_equal(restored[name], values) for name, values in state.items())
    assert repository.fsck().ok
