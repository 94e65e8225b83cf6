"""The coder of codes in static rANS: the twin's bytes at every level, and nothing hostile gets through."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mvcs_native
from tests.native.once import once
from tests.reference import rans

per_level = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
CODERS = ("encode_codes", "decode_codes", "encode_moves", "decode_moves")
twin = SimpleNamespace(**{name: once(getattr(rans, name)) for name in CODERS})


def as_bytes(data):
    return np.frombuffer(bytes(data), np.uint8)


def as_counts(counts):
    return np.array(counts, np.uint64)


def as_steps(steps):
    return np.array(steps or [], np.uint8).reshape(-1)


def encode_codes(codes, width, counts):
    return mvcs_native.encode_rans_codes(as_bytes(codes), width, as_counts(counts))


def decode_codes(payload, width, counts):
    out = np.empty(sum(counts) * width, np.uint8)
    mvcs_native.decode_rans_codes(as_bytes(payload), width, as_counts(counts), out)
    return out.tobytes()


def encode_moves(codes, base, width, counts, steps=None):
    return mvcs_native.encode_rans_moves(
        as_bytes(codes), as_bytes(base), width, as_counts(counts), as_steps(steps)
    )


def decode_moves(payload, base, width, counts):
    out = np.empty(sum(counts) * width, np.uint8)
    mvcs_native.decode_rans_moves(as_bytes(payload), as_bytes(base), width, as_counts(counts), out)
    in_place = as_bytes(base).copy()
    mvcs_native.decode_rans_moves(as_bytes(payload), in_place, width, as_counts(counts), in_place)
    assert np.array_equal(in_place, out)
    return out.tobytes()


def outcome(decode, *arguments):
    """What was decoded, or None where the payload was refused."""
    try:
        return decode(*arguments)
    except ValueError:
        return None


@st.composite
def members(draw):
    """Codes of a few members near base codes, as training has them and as it does not."""
    width = draw(st.sampled_from([1, 2]))
    counts = draw(st.lists(st.integers(0, 300), min_size=1, max_size=4))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    spread = draw(st.sampled_from([0.3, 2.0, 40.0, 12000.0]))
    share = draw(st.sampled_from([0.0, 0.003, 0.1, 0.6, 1.0]))
    size = sum(counts)
    kind = np.int16 if width == 2 else np.uint8
    low, high = (-32768, 32767) if width == 2 else (0, 255)
    base = np.clip(np.rint(random.normal(0 if width == 2 else 8, spread, size)), low, high)
    moves = np.rint(random.normal(0, draw(st.sampled_from([0.8, 5.0, 300.0])), size))
    codes = np.where(random.random(size) < share, base + moves, base)
    return (np.clip(codes, low, high).astype(kind).tobytes(), base.astype(kind).tobytes(), width, counts)


@pytest.mark.usefixtures("level")
@per_level
@given(given_members=members())
def test_codes_alone_are_the_twins_bytes_and_come_back(given_members):
    codes, _, width, counts = given_members
    payload = encode_codes(codes, width, counts)
    assert payload == twin.encode_codes(codes, width, counts)
    assert decode_codes(payload, width, counts) == codes
    assert twin.decode_codes(payload, width, counts) == codes


@pytest.mark.usefixtures("level")
@per_level
@given(given_members=members(), step=st.integers(0, 255), change=st.integers(-5, 5))
def test_moves_are_the_twins_bytes_and_come_back(given_members, step, change):
    codes, base, width, counts = given_members
    steps = [(step, (step + change * (m % 2)) % 256) for m in range(len(counts))] if width == 2 else None
    payload = encode_moves(codes, base, width, counts, steps)
    assert payload == twin.encode_moves(codes, base, width, counts, steps)
    assert decode_moves(payload, base, width, counts) == codes
    assert twin.decode_moves(payload, base, width, counts) == codes


def lattice(size, share, seed=0):
    """Codes near base codes with many lanes' worth of changes, of which some need escapes."""
    random = np.random.default_rng(seed)
    base = np.rint(random.laplace(0, 2.5, size)).astype(np.int16)
    codes = base + np.where(random.random(size) < share, random.choice([-2, -1, 1, 3, 700], size), 0)
    return codes.astype(np.int16), base


@pytest.mark.parametrize("share", [0.0005, 0.01, 0.09, 0.7])
@pytest.mark.parametrize("width", [1, 2])
def test_every_level_writes_the_same_bytes_and_reads_them(width, share):
    codes, base = lattice(600_011, share)
    if width == 1:
        codes, base = (array.astype(np.uint8) for array in (codes, base))
    counts = [5, 0, 262_001, 1, 64, len(base) - 262_071]
    best = mvcs_native.level()
    payloads = {}
    for level in mvcs_native.levels():
        mvcs_native.use_level(level)
        payloads[level] = (
            encode_moves(codes.tobytes(), base.tobytes(), width, counts),
            encode_codes(codes.tobytes(), width, counts),
        )
        moves, alone = payloads["portable"]
        assert decode_moves(moves, base.tobytes(), width, counts) == codes.tobytes()
        assert decode_codes(alone, width, counts) == codes.tobytes()
    mvcs_native.use_level(best)
    assert len(set(payloads.values())) == 1


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("share", [0, 0.001, 0.05, 0.7])
@pytest.mark.parametrize(("width", "steps"), [(1, None), (2, None), (2, [(100, 101)])])
def test_moves_are_decoded_in_place_of_their_base(width, steps, share):
    codes, base = (array.astype(np.uint8 if width == 1 else "<i2") for array in lattice(50_003, share))
    counts = as_counts([50_003])
    out = base.copy().view(np.uint8)
    payload = encode_moves(codes.tobytes(), base.tobytes(), width, counts, steps)
    mvcs_native.decode_rans_moves(as_bytes(payload), out, width, counts, out)
    assert out.tobytes() == codes.tobytes()


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("size", [4096, 70_000])
def test_many_lanes_are_the_twins_bytes(size):
    codes, base = lattice(size, 0.3)
    counts = [size - 1000, 1000]
    arguments = (codes.tobytes(), base.tobytes(), 2, counts)
    assert encode_moves(*arguments) == twin.encode_moves(*arguments)
    assert encode_codes(codes.tobytes(), 2, counts) == twin.encode_codes(codes.tobytes(), 2, counts)


@pytest.mark.usefixtures("level")
def test_rows_that_never_change_cost_next_to_nothing():
    codes, base = lattice(64 * 256, 0.4)
    codes = np.where(np.arange(codes.size) // 256 % 4 == 0, codes, base).astype(np.int16)
    payload = encode_moves(codes.tobytes(), base.tobytes(), 2, [codes.size])
    rows = slice(None, None, 4)
    touched = (codes.reshape(-1, 256)[rows].tobytes(), base.reshape(-1, 256)[rows].tobytes())
    assert len(payload) < 1.05 * len(encode_moves(*touched, 2, [codes.size // 4]))
    assert payload == twin.encode_moves(codes.tobytes(), base.tobytes(), 2, [codes.size])
    assert decode_moves(payload, base.tobytes(), 2, [codes.size]) == codes.tobytes()


def test_nothing_changed_is_one_byte():
    _, base = lattice(1000, 0)
    assert encode_moves(base.tobytes(), base.tobytes(), 2, [400, 600], [(9, 9), (8, 8)]) == b"\0"
    assert encode_moves(b"", b"", 1, []) == b"\0"
    assert encode_codes(b"", 1, [0, 0]) == b""


def test_a_member_that_did_not_change_costs_next_to_nothing():
    codes, base = lattice(40_000, 0.2)
    alone = encode_moves(codes.tobytes(), base.tobytes(), 2, [40_000])
    unchanged = np.tile(base, 10)
    both = encode_moves(
        np.concatenate([codes, unchanged]).tobytes(),
        np.concatenate([base, unchanged]).tobytes(),
        2,
        [40_000, 400_000],
    )
    assert len(both) < len(alone) + 60


def test_sizes_come_near_the_entropy():
    codes, base = lattice(400_000, 0.1)
    counts = {}
    for bucket, move in zip(
        np.minimum(abs(base), 15), (codes - base) * np.where(base < 0, -1, 1), strict=True
    ):
        of = counts.setdefault(int(bucket), {})
        of[int(move)] = of.get(int(move), 0) + 1
    bits = sum(n * np.log2(sum(of.values()) / n) for of in counts.values() for n in of.values())
    escapes = sum(n for of in counts.values() for move, n in of.items() if abs(move) == 700)
    size = len(encode_moves(codes.tobytes(), base.tobytes(), 2, [codes.size]))
    assert size <= 1.01 * bits / 8 + 2 * escapes


def test_random_codes_alone_are_stored_as_they_are():
    random = np.random.default_rng(3)
    codes, base = (random.integers(0, 256, 500, np.uint8).tobytes() for _ in range(2))
    assert encode_codes(codes, 1, [500]) == b"\0" + codes
    moves = encode_moves(codes, base, 1, [500])
    assert moves == twin.encode_moves(codes, base, 1, [500])
    assert decode_moves(moves, base, 1, [500]) == codes


STEPS = [0, 1, 238, 239, 240, 243, 255]


@pytest.mark.parametrize(("old", "new"), list(itertools.product(STEPS, repeat=2)))
def test_rescaled_codes_are_their_twins(old, new):
    some = np.array([0, 1, -1, 2, 3, 5, -7, 100, -1001, 32767, -32767, -32768], np.int16)
    codes = np.concatenate([some, np.arange(-32768, 32768, dtype=np.int16)[:: 1 if old == 238 else 97]])
    out = np.empty_like(codes)
    mvcs_native.rescale(codes, old, new, out)
    assert out.tolist() == rans.rescale(codes.tolist(), old, new)


def damaged(payload):
    """Every truncation, one byte more, every flipped bit."""
    yield from (payload[:end] for end in range(len(payload)))
    yield payload + b"\0"
    for bit in range(len(payload) * 8):
        flipped = bytearray(payload)
        flipped[bit // 8] ^= 128 >> bit % 8
        yield bytes(flipped)


def small(width, share, escapes):
    random = np.random.default_rng(width)
    base = random.integers(0, 5, 90)
    moves = random.choice([-1, 1, 2] + [3000] * escapes, 90)
    codes = np.where(random.random(90) < share, base + moves, base)
    kind = np.int16 if width == 2 else np.uint8
    return codes.astype(kind).tobytes(), base.astype(kind).tobytes(), width, [30, 60]


SAMPLES = {
    "bytes": (small(1, 0.3, 0), None),
    "words": (small(2, 0.3, 0), None),
    "escapes": (small(2, 0.5, 1), None),
    "steps": (small(2, 0.4, 0), [(240, 240), (240, 241)]),
    "gaps": ((*small(2, 0.02, 0)[:3], [90]), None),
}


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("name", SAMPLES)
def test_damaged_moves_are_refused_or_decode_as_the_twin_does(name):
    (codes, base, width, counts), steps = SAMPLES[name]
    payload = encode_moves(codes, base, width, counts, steps)
    assert decode_moves(payload, base, width, counts) == codes
    for broken in damaged(payload):
        expected = outcome(twin.decode_moves, broken, base, width, counts)
        assert outcome(decode_moves, broken, base, width, counts) == expected
    for broken in [*(payload[:end] for end in range(len(payload))), payload + b"\0"]:
        assert outcome(decode_moves, broken, base, width, counts) is None


@pytest.mark.usefixtures("level")
@pytest.mark.parametrize("name", SAMPLES)
def test_damaged_codes_are_refused_or_decode_as_the_twin_does(name):
    codes, _, width, counts = SAMPLES[name][0]
    payload = encode_codes(codes, width, counts)
    for broken in damaged(payload):
        expected = outcome(twin.decode_codes, broken, width, counts)
        assert outcome(decode_codes, broken, width, counts) == expected
    for count in (0, 1, 89, 91):
        assert outcome(decode_codes, payload, width, [count]) == outcome(
            twin.decode_codes, payload, width, [count]
        )


@settings(max_examples=300, deadline=None)
@given(
    st.integers(0, 7),
    st.binary(max_size=60),
    st.sampled_from([1, 2]),
    st.lists(st.integers(0, 90), max_size=3),
)
def test_arbitrary_bytes_are_refused_or_decode_as_the_twin_does(mode, body, width, counts):
    payload = bytes([mode]) + body
    base = bytes(i * i // 7 % 5 if width == 1 or i % 2 == 0 else 0 for i in range(sum(counts) * width))
    expected = outcome(twin.decode_moves, payload, base, width, counts)
    assert outcome(decode_moves, payload, base, width, counts) == expected
    expected = outcome(twin.decode_codes, payload, width, counts)
    assert outcome(decode_codes, payload, width, counts) == expected


NONE = np.zeros(0, np.uint8)
FOUR = np.zeros(4, np.uint8)
COUNTS = as_counts([2, 2])


@pytest.mark.parametrize(
    "call",
    [
        lambda: mvcs_native.encode_rans_codes(FOUR, 3, COUNTS),
        lambda: mvcs_native.encode_rans_codes(FOUR, 2, COUNTS),
        lambda: mvcs_native.encode_rans_codes(FOUR, 1, as_counts([2**64 - 1, 5])),
        lambda: mvcs_native.encode_rans_codes(NONE, 1, as_counts([0] * 4097)),
        lambda: mvcs_native.encode_rans_codes(np.zeros(2**22 + 1, np.uint8), 1, as_counts([2**22 + 1])),
        lambda: mvcs_native.decode_rans_codes(FOUR, 1, COUNTS, np.empty(3, np.uint8)),
        lambda: mvcs_native.encode_rans_moves(FOUR, FOUR[1:].copy(), 1, COUNTS, NONE),
        lambda: mvcs_native.encode_rans_moves(FOUR, FOUR, 1, COUNTS, FOUR),
        lambda: mvcs_native.encode_rans_moves(FOUR, FOUR, 2, as_counts([2]), FOUR),
        lambda: mvcs_native.encode_rans_moves(FOUR, FOUR, 2, as_counts([2]), FOUR[:3].copy()),
        lambda: mvcs_native.decode_rans_moves(FOUR, FOUR[1:].copy(), 1, COUNTS, FOUR.copy()),
        lambda: mvcs_native.rescale(np.zeros(2, np.int16), 256, 0, np.zeros(2, np.int16)),
        lambda: mvcs_native.rescale(np.zeros(2, np.int16), 0, 0, np.zeros(3, np.int16)),
    ],
)
def test_broken_contracts_are_value_errors(call):
    with pytest.raises(ValueError, match=r"\w+"):
        call()
