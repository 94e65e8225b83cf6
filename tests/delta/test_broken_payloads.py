"""Payloads that break one rule of the pages each: both readers refuse them, and take those that keep it."""

import itertools

import pytest

from mvcs.delta import ElementFormat, Encoding, decode
from mvcs.errors import CorruptionError
from tests.reference import reader_payloads

ONE, TWO, FOUR = (ElementFormat(width, floating=False) for width in (1, 2, 4))


def decoded(encoding, payload, lengths, base=None, element=ONE):
    """Return what mvcs makes of a payload, which is what the second reader makes of it."""
    content = decode(encoding, payload, lengths=lengths, element=element, base=base)
    assert reader_payloads.decode(encoding, element.to_number(), lengths, payload, base) == content
    return content


def refused(encoding, payload, lengths, base=None, element=ONE):
    with pytest.raises(CorruptionError):
        decode(encoding, payload, lengths=lengths, element=element, base=base)
    with pytest.raises(reader_payloads.CorruptionError):
        reader_payloads.decode(encoding, element.to_number(), lengths, payload, base)


def packed(*parts):
    """Return a bit stream: bits as text, filled up with zeros."""
    bits = "".join(parts)
    bits += "0" * (-len(bits) % 8)
    return bytes(int(bits[start : start + 8], 2) for start in range(0, len(bits), 8))


def gamma(value):
    return "0" * (value.bit_length() - 1) + f"{value:b}"


def zigzag(value):
    return 2 * value if value >= 0 else -2 * value - 1


def table(*frequencies):
    """Return the bits of a table of frequencies, of which any may be 0."""
    bits, before = [], 10
    for frequency, run in itertools.groupby(frequencies):
        count = len(list(run))
        if not frequency:
            bits.append(gamma(1 + zigzag(-before)) + gamma(count))
            continue
        for _ in range(count):
            length = frequency.bit_length()
            bits.append(gamma(1 + zigzag(length - before)) + f"{frequency:b}"[1:])
            before = length
    return "".join(bits)


def model(*tables, runs=()):
    """Return a model: its tables, and runs of contexts with the table of each."""
    width = (len(tables) - 1).bit_length()
    mapped = (gamma(length) + (f"{number:0{width}b}" if width else "") for length, number in runs)
    return packed(f"{len(tables) - 1:04b}", *tables, *mapped)


CERTAIN = table(4096)
EVEN = table(2048, 2048)
START = bytes.fromhex("00 00 01 00")  # a state where a stream of certain symbols begins and ends
RUNS = bytes.fromhex("02 04 0a 00 00 11 20 31 20 4f 8e 80 00")
HUFFMAN = bytes.fromhex("ff 03 0b 12 20 4d 09 a1 34 26 84 d0 9a 00")
NEVER = b""  # of encodings without a base


def changed(payload, at, *values):
    return payload[:at] + bytes(values) + payload[at + len(values) :]


def body(content, mode=3, levels=3):
    return bytes([levels - 1, mode, len(content)]) + content


@pytest.mark.parametrize(
    ("payload", "count"),
    [
        pytest.param(bytes.fromhex("02 02 ff"), 4, id="a symbol in bits is not below the levels"),
        pytest.param(bytes.fromhex("02 01 03"), 4, id="nor is the constant"),
        pytest.param(bytes.fromhex("02 05"), 4, id="no mode has that number"),
        pytest.param(body(packed("0000", "1111", "0001", "0001")), 1, id="a table beyond the alphabet"),
        pytest.param(body(packed("0010", "0001", "0001", "0")), 1, id="code words that sum to more than 1"),
        pytest.param(body(packed("0010", "0010", "0010", "0")), 1, id="code words that sum to less than 1"),
        pytest.param(changed(HUFFMAN, 2, 12) + b"\0", 48, id="a body that is not used up"),
        pytest.param(changed(HUFFMAN, 2, 10), 48, id="a body that is longer than its size"),
        pytest.param(HUFFMAN[:2] + b"\x8b\0" + HUFFMAN[3:], 48, id="a size of needless bytes"),
        pytest.param(b"\xff\x03\x8b\x80\x80\x80\0" + HUFFMAN[3:], 48, id="a size of five bytes"),
        pytest.param(b"\xff\x03\xff\xff\xff\x7f", 48, id="a size beyond the payload"),
        pytest.param(changed(HUFFMAN, len(HUFFMAN) - 1, 1), 48, id="spare bits that are set"),
        pytest.param(RUNS, 153, id="a run that is longer than what is left"),
        pytest.param(changed(RUNS, 3, 1), 154, id="a common symbol that has a code word"),
        pytest.param(RUNS + b"\0", 154, id="bytes behind the payload"),
        pytest.param(b"\0\0", (1 << 22) + 1, id="more codes than a chunk has"),
    ],
)
def test_groups_of_codes(payload, count):
    refused(Encoding.CODES, payload, [count])


def test_groups_of_codes_that_break_nothing():
    assert len(decoded(Encoding.CODES, RUNS, [154])) == 154
    assert len(decoded(Encoding.CODES, HUFFMAN, [48])) == 48
    assert decoded(Encoding.CODES, body(packed("0010", "0010", "0001") + packed("11")), [1]) == b"\1"
    assert decoded(Encoding.CODES, b"\0\0", [1 << 22]) == bytes(1 << 22)


def test_codes_of_a_base_are_below_the_levels():
    assert decoded(Encoding.DELTA, b"\3", [4], bytes([0, 1, 2, 3])) == bytes([0, 1, 2, 3])
    refused(Encoding.DELTA, b"\3", [4], bytes([0, 1, 2, 4]))


def test_a_symbol_of_a_difference_is_below_the_levels():
    refused(Encoding.DELTA, bytes.fromhex("03 01 04 00 00 00"), [4], bytes([0, 0, 0, 0]))


def frame(content, *, window=None, size=True, dictionary=None):
    """Return a zstd frame of one raw block; `window` is the descriptor of a window, if it has one."""
    flags = (0b01 << 6 if size else 0) | (0 if dictionary is None else 1)
    head = b"" if window is None else bytes([window])
    flags |= 0 if window is not None else 1 << 5
    named = b"" if dictionary is None else bytes([dictionary])
    stated = (len(content) - 256).to_bytes(2, "little") if size else b""
    block = (len(content) << 3 | 1).to_bytes(3, "little")
    return bytes.fromhex("28 b5 2f fd") + bytes([flags]) + head + named + stated + block + content


CONTENT = bytes(range(256)) + bytes(44)
ONE_KIB, TWO_KIB = 0, 1 << 3  # descriptors of windows


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(frame(CONTENT, window=TWO_KIB), id="a window of more than twice the chunk and 1 KiB"),
        pytest.param(frame(CONTENT, window=ONE_KIB, size=False), id="no stated size"),
        pytest.param(frame(CONTENT, dictionary=7), id="a dictionary"),
        pytest.param(frame(CONTENT[:299]), id="another size"),
        pytest.param(frame(CONTENT) + b"\0", id="bytes behind it"),
        pytest.param(frame(CONTENT) * 2, id="two frames"),
        pytest.param(NEVER, id="no frame"),
    ],
)
@pytest.mark.parametrize("base", [None, b"other"])
def test_frames(payload, base):
    encoding = Encoding.ZSTD if base is None else Encoding.ZSTD_DELTA
    refused(encoding, payload, [len(CONTENT)], base)


@pytest.mark.parametrize("base", [None, b"other"])
def test_frames_that_break_nothing(base):
    encoding = Encoding.ZSTD if base is None else Encoding.ZSTD_DELTA
    for payload in (frame(CONTENT), frame(CONTENT, window=ONE_KIB)):
        assert decoded(encoding, payload, [len(CONTENT)], base) == CONTENT


def test_the_window_near_a_base_is_measured_by_both():
    wide = frame(CONTENT, window=TWO_KIB)
    assert decoded(Encoding.ZSTD_DELTA, wide, [len(CONTENT)], bytes(800)) == CONTENT
    refused(Encoding.ZSTD_DELTA, wide, [len(CONTENT)], bytes(700))


def stream(*states, lanes=0, words=b""):
    return bytes([lanes]) + b"".join(state.to_bytes(4, "little") for state in states) + words


WORKED = bytes.fromhex("01 02 c0 02 00 20 00 00 20 21 b9 02 00 bc")  # three times 0 0 0 1 0 0 2 0


@pytest.mark.parametrize(
    ("payload", "lengths"),
    [
        pytest.param(b"\1" + model(EVEN) + stream(*[65536] * 128, lanes=7), [200], id="more than 64 lanes"),
        pytest.param(b"\1" + model(EVEN) + stream(65535, words=bytes(2)), [1], id="a state below 65536"),
        pytest.param(
            b"\1" + model(EVEN) + stream(65537, words=bytes(2)), [1], id="a state that ends elsewhere"
        ),
        pytest.param(WORKED + b"\0\0", [24], id="words that are not used"),
        pytest.param(WORKED[:-2], [24], id="words that are missing"),
        pytest.param(b"\1" + model(table(5000)), [4], id="frequencies of more than 4096"),
        pytest.param(b"\1" + model(table(*[1] * 256)), [4], id="frequencies of less than 4096"),
        pytest.param(b"\1" + model(table(*[0] * 257, 4096)), [4], id="a run of zeros beyond the alphabet"),
        pytest.param(b"\1" + model(table(*[0] * 256, 4096)), [4], id="a symbol beyond the alphabet"),
        pytest.param(b"\1" + model(CERTAIN, CERTAIN, runs=[(3, 0)]), [1, 1], id="a run beyond the contexts"),
        pytest.param(
            b"\1" + model(CERTAIN, CERTAIN, CERTAIN, runs=[(2, 3)]), [1, 1], id="a table that is not there"
        ),
        pytest.param(
            b"\1" + changed(model(CERTAIN), 1, model(CERTAIN)[1] | 1), [1], id="spare bits that are set"
        ),
        pytest.param(b"\2", [1], id="no mode has that number"),
        pytest.param(b"", [1], id="no mode"),
        pytest.param(b"\0", [0], id="a mode without codes"),
        pytest.param(b"\0\1", [2], id="fewer codes"),
    ],
)
def test_streams(payload, lengths):
    refused(Encoding.RANS_CODES, payload, lengths)


def test_streams_that_break_nothing():
    assert decoded(Encoding.RANS_CODES, WORKED, [24]) == bytes([0, 0, 0, 1, 0, 0, 2, 0] * 3)
    assert decoded(Encoding.RANS_CODES, b"\1" + model(CERTAIN), [3]) == bytes(3)
    two = model(CERTAIN, table(0, 4096), runs=[(1, 0), (1, 1)])
    assert decoded(Encoding.RANS_CODES, b"\1" + two, [1, 1]) == b"\0\1"
    assert decoded(Encoding.RANS_CODES, b"", [0]) == b""


def test_escaped_codes_are_those_that_no_symbol_stands_for():
    escape = b"\1" + model(table(*[0] * 255, 4096))
    assert decoded(Encoding.RANS_CODES, escape + b"\xe8\x03", [2], element=TWO) == b"\xe8\x03"
    refused(Encoding.RANS_CODES, escape, [2], element=TWO)
    refused(Encoding.RANS_CODES, escape + bytes(4), [2], element=TWO)


def test_members_are_no_more_than_may_be():
    assert decoded(Encoding.RANS_CODES, b"\1" + model(CERTAIN), [1] * 4096) == bytes(4096)
    with pytest.raises(CorruptionError):
        decode(Encoding.RANS_CODES, b"\1" + model(CERTAIN), lengths=[1] * 4097, element=ONE)


ONE_GAP = packed("0000")  # one class of contexts
AT_0, AT_1 = model(CERTAIN), model(table(0, 4096))  # of gaps, both certain


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(b"\2" + model(CERTAIN) + ONE_GAP + b"\1" + AT_1 + NEVER, id="a gap beyond its class"),
        pytest.param(b"\2" + model(CERTAIN) + ONE_GAP + b"\2" + AT_0, id="more changes than codes"),
        pytest.param(b"\2" + model(CERTAIN) + ONE_GAP + b"\x81\0" + AT_0, id="a count of needless bytes"),
        pytest.param(b"\2" + model(CERTAIN) + ONE_GAP + b"\1" + AT_0 + b"\0", id="bytes behind"),
        pytest.param(b"\4\1\0\0", id="steps of codes of one byte"),
        pytest.param(b"", id="no mode"),
        pytest.param(b"\x08", id="no mode has that number"),
    ],
)
def test_moves(payload):
    refused(Encoding.RANS_DELTA, payload, [1], b"\5")


def test_moves_that_break_nothing():
    assert decoded(Encoding.RANS_DELTA, b"\2" + model(CERTAIN) + ONE_GAP + b"\1" + AT_0, [1], b"\5") != b"\5"
    assert decoded(Encoding.RANS_DELTA, b"\0", [1], b"\5") == b"\5"


def test_spare_bits_of_steps_are_zero():
    assert decoded(Encoding.RANS_DELTA, b"\4\1\xf0\xf0", [2], b"\5\0", TWO) == b"\5\0"
    refused(Encoding.RANS_DELTA, b"\4\3\xf0\xf0\xf0\xf0", [2], b"\5\0", TWO)


def residual(symbol, escaped=b"", tails=b""):
    """Return the difference of words that all have one symbol."""
    only = model(table(*[0] * symbol, 4096) if symbol else CERTAIN)
    return only + bytes([len(escaped)]) + escaped + bytes([len(tails)]) + tails + stream(65536)


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(residual(64), id="a symbol of more bits than a word"),
        pytest.param(residual(0, escaped=b"\2"), id="escaped symbols that are not used"),
        pytest.param(residual(255), id="escaped symbols that are missing"),
        pytest.param(residual(255, escaped=b"\xff"), id="an escape that is escaped"),
        pytest.param(residual(255, escaped=b"\x40"), id="an escaped symbol of more bits than a word"),
        pytest.param(residual(0, tails=b"\0"), id="tails that are not used"),
        pytest.param(residual(0) + b"\0", id="bytes behind"),
    ],
)
def test_residuals(payload):
    refused(Encoding.RANS_RESIDUAL, payload, [1], b"\5")


def test_no_words_have_no_payload():
    assert decoded(Encoding.RANS_RESIDUAL, b"", [0], b"") == b""
    refused(Encoding.RANS_RESIDUAL, residual(0)[:-5], [0], b"")


@pytest.mark.parametrize(
    ("encoding", "payload"), [(Encoding.RANS_CODES, b"\1" + model(CERTAIN)), (Encoding.RANS_DELTA, b"\0")]
)
def test_codes_are_no_more_than_may_be(encoding, payload):
    base = bytes((1 << 22) + 1) if encoding == Encoding.RANS_DELTA else None
    refused(encoding, payload, [(1 << 22) + 1], base)
    assert decoded(encoding, payload, [1 << 22], base and base[1:]) == bytes(1 << 22)


def test_residuals_that_break_nothing():
    assert decoded(Encoding.RANS_RESIDUAL, residual(0), [1], b"\5") == b"\5"
    assert decoded(Encoding.RANS_RESIDUAL, residual(2), [1], b"\5") == b"\6"
    assert decoded(Encoding.RANS_RESIDUAL, residual(255, escaped=b"\1"), [1], b"\5") == b"\4"


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(b"\3" + bytes(4), id="no mode has that number"),
        pytest.param(b"\0" + bytes(3), id="a raw plane that is cut"),
        pytest.param(b"\1", id="no constant"),
        pytest.param(b"\2\4" + model(CERTAIN) + bytes(2), id="a body that is cut"),
        pytest.param(b"\2\x09" + model(CERTAIN) + stream(65536) + bytes(1), id="a body that is not used up"),
        pytest.param(b"\1\0\0", id="bytes behind"),
    ],
)
def test_planes(payload):
    refused(Encoding.RANS_PLANES, payload, [4])


def test_planes_that_break_nothing():
    coded = model(CERTAIN) + stream(65536)
    assert decoded(Encoding.RANS_PLANES, bytes([2, len(coded)]) + coded, [4]) == bytes(4)
    assert decoded(Encoding.RANS_PLANES, b"\1\5", [4]) == b"\5" * 4


@pytest.mark.parametrize("payload", [b"", b"\2", b"\0\0"])
def test_narrowed(payload):
    refused(Encoding.NARROWED, payload, [2], bytes(4), TWO)


@pytest.mark.parametrize("payload", [b"", b"abc", b"abcde"])
def test_raw(payload):
    refused(Encoding.RAW, payload, [4])
