"""Codes through the entropy coder: what comes back, what is refused, and the worked bytes of the page."""

import numpy as np
import pytest

from mvcs.delta import rans
from mvcs.errors import CorruptionError, UsageError
from tests.format import page
from tests.reference.reader_payloads import RANS_DELTA, decode

STEPPED = np.array([4, 8, -5], np.int16)
EXAMPLES = {
    "codes": (np.array([0, 0, 0, 1, 0, 0, 2, 0] * 3, np.uint8), None, None),
    "gaps": (np.array(([0] * 7 + [1]) * 8 + [0] * 192, np.int16), np.zeros(256, np.int16), None),
    "escape": (np.array([-1000], np.int16), np.array([-1], np.int16), None),
    "steps": (rans.rescale_codes(STEPPED, 240, 241), STEPPED, [(240, 241)]),
}


def test_codes_in_other_steps_are_those_on_the_page():
    assert rans.rescale_codes(np.array([3, 5, -3, 20000, -32768], np.int16), 240, 244).tolist() == [
        2,
        2,
        -2,
        10000,
        -32768,
    ]
    assert rans.rescale_codes(np.array([3, 5, -3, 20000], np.int16), 244, 240).tolist() == [6, 10, -6, 32767]
    text = page.text("entropy.md")
    assert "3 5 -3 20000 become 2 2 -2 10000 in twice the step, and 6 10 -6 32767 in half of it" in text


@pytest.mark.parametrize("needless", [("e7 03", "00 00"), ("01 03 80 00 e7 03", "00 03 80 00")])
def test_moves_that_are_needless_are_no_errors(needless):
    payload = page.blocks("entropy.md")["escape"].hex(" ")
    assert payload.endswith(needless[0])
    payload = bytes.fromhex(payload.removesuffix(needless[0]) + needless[1])
    base = as_bytes(np.array([-1], np.int16))
    assert np.array_equal(rans.decode_moves(as_payload(payload), base, 2, [1]), base)
    twin = decode(RANS_DELTA, 1, [2], payload, base.tobytes())
    assert twin == base.tobytes()


@pytest.mark.parametrize("width", [1, 2])
def test_the_mode_of_moves_is_there_without_codes(width):
    none = np.zeros(0, np.uint8)
    assert rans.encode_moves(none, none, width, [0, 0]) == b"\0"
    assert rans.encode_codes(none, width, [0, 0]) == b""
    assert decode(RANS_DELTA, width - 1, [0, 0], b"\0", b"") == b""
    with pytest.raises(CorruptionError):
        rans.decode_moves(none, none, width, [0, 0])


def as_bytes(codes):
    return np.ascontiguousarray(codes).view(np.uint8)


def as_payload(payload):
    return np.frombuffer(payload, np.uint8)


def test_the_page_has_every_example():
    assert sorted(page.blocks("entropy.md")) == sorted(EXAMPLES)
    assert EXAMPLES["steps"][0].tolist() == [3, 6, -4]


@pytest.mark.parametrize("name", EXAMPLES)
def test_payloads_are_the_bytes_on_the_page(name):
    codes, base, steps = EXAMPLES[name]
    width, counts, payload = codes.itemsize, [codes.size], page.blocks("entropy.md")[name]
    if base is None:
        assert rans.encode_codes(as_bytes(codes), width, counts) == payload
        back = rans.decode_codes(as_payload(payload), width, counts)
    else:
        assert rans.encode_moves(as_bytes(codes), as_bytes(base), width, counts, steps) == payload
        back = rans.decode_moves(as_payload(payload), as_bytes(base), width, counts)
    assert np.array_equal(back, as_bytes(codes))


def drift(size, share, seed=1):
    random = np.random.default_rng(seed)
    base = np.rint(random.normal(0, 3, size)).astype(np.int16)
    moved = random.random(size) < share
    return np.where(moved, base + random.choice([-1, 1], size), base).astype(np.int16), base


def test_members_of_all_sizes_come_back():
    codes, base = drift(100_000, 0.1)
    counts = [0, 1, 60_000, 7, 0, 39_992]
    steps = [(200, 200 + m % 3) for m in range(len(counts))]
    payload = as_payload(rans.encode_moves(as_bytes(codes), as_bytes(base), 2, counts, steps))
    assert np.array_equal(rans.decode_moves(payload, as_bytes(base), 2, counts), as_bytes(codes))
    alone = as_payload(rans.encode_codes(as_bytes(codes), 2, counts))
    assert np.array_equal(rans.decode_codes(alone, 2, counts), as_bytes(codes))


def test_a_finer_step_near_a_coarse_base_is_cheaper_re_expressed():
    fine, _ = drift(50_000, 0)
    fine = (fine * 7).astype(np.int16)
    coarse = rans.rescale_codes(fine, 200, 202)
    known = rans.encode_moves(as_bytes(fine), as_bytes(coarse), 2, [50_000], [(202, 200)])
    unknown = rans.encode_moves(as_bytes(fine), as_bytes(coarse), 2, [50_000])
    assert len(known) < 0.8 * len(unknown)


def test_buffers_may_start_anywhere():
    codes, base = drift(5000, 0.2)
    odd = np.concatenate([[9], as_bytes(codes), as_bytes(base)]).astype(np.uint8)
    payload = rans.encode_moves(odd[1:10_001], odd[10_001:], 2, [5000])
    assert payload == rans.encode_moves(as_bytes(codes), as_bytes(base), 2, [5000])
    assert np.array_equal(rans.decode_moves(as_payload(payload), odd[10_001:], 2, [5000]), as_bytes(codes))


def test_damage_is_corruption():
    codes, base = drift(500, 0.3)
    moves = as_payload(rans.encode_moves(as_bytes(codes), as_bytes(base), 2, [500]))
    alone = as_payload(rans.encode_codes(as_bytes(codes), 2, [500]))
    with pytest.raises(CorruptionError, match="codes cannot be decoded: "):
        rans.decode_moves(moves[:-1], as_bytes(base), 2, [500])
    with pytest.raises(CorruptionError, match="codes cannot be decoded: "):
        rans.decode_codes(alone[:-1], 2, [500])


def test_codes_that_do_not_fit_are_a_usage_error():
    codes = np.zeros(10, np.uint8)
    with pytest.raises(UsageError, match="codes and counts differ in length"):
        rans.encode_codes(codes, 2, [10])
    with pytest.raises(UsageError, match="codes and base differ in length"):
        rans.encode_moves(codes, codes[1:].copy(), 1, [10])
    with pytest.raises(UsageError, match="codes cannot be encoded: "):
        rans.encode_moves(codes, codes, 2, [5], [(0, 256)])
    with pytest.raises(UsageError, match="codes cannot be rescaled: "):
        rans.rescale_codes(codes.view(np.int16), 256, 0)
