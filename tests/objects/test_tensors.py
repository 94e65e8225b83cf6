"""Forms of quantized tensors: what they name, and what is refused in them."""

import pytest

from mvcs.errors import CorruptionError, UnsupportedFormatError
from mvcs.objects.tensors import QuantizedTensor
from tests.format import examples

ID = examples.LATTICE.id


NAME, SHAPE, FORM, FIELDS, EXCEPTIONS, DIGESTS, CODES = range(7)
KNOWN = {example.id: example for example in examples.FORMS.values()}


def resolved(identifier):
    if identifier not in KNOWN:
        raise CorruptionError("nothing is known of it")
    return KNOWN[identifier]


def changed(example, index, new):
    items = example.items(lambda other: other.id)
    items[index] = new
    return items


def parameters(example, *fields):
    return changed(example, FIELDS, list(fields))


@pytest.mark.parametrize(
    ("items", "error"),
    [
        (parameters(examples.LATTICE, 256), CorruptionError),
        (parameters(examples.LATTICE, -1), CorruptionError),
        (parameters(examples.LATTICE, True), CorruptionError),
        (parameters(examples.LATTICE), CorruptionError),
        (parameters(examples.LATTICE, 1, 2), CorruptionError),
        (changed(examples.LATTICE, FIELDS, None), CorruptionError),
        (changed(examples.LATTICE, CODES, []), CorruptionError),
        (changed(examples.LATTICE, EXCEPTIONS, []), CorruptionError),
        (changed(examples.LATTICE, CODES, [ID, ID]), CorruptionError),
        (changed(examples.LATTICE, SHAPE, [2**22 + 1]), CorruptionError),
        (changed(examples.LATTICE, NAME, "int32"), UnsupportedFormatError),
        (changed(examples.LATTICE, NAME, "float8_e5m2"), UnsupportedFormatError),
        (parameters(examples.LOG_LATTICE, 15, ID, ID), CorruptionError),
        (parameters(examples.LOG_LATTICE, 25, ID, ID), CorruptionError),
        (parameters(examples.LOG_LATTICE, 23, b"short", ID), CorruptionError),
        (parameters(examples.LOG_LATTICE, 23, ID), CorruptionError),
        (parameters(examples.RANK_ONE, 23, ID, None), CorruptionError),
        (parameters(examples.RANK_ONE, 23, None, None), CorruptionError),
        (changed(examples.RANK_ONE, EXCEPTIONS, [None]), CorruptionError),
        (changed(examples.RANK_ONE, SHAPE, [2**22 + 1, 2]), CorruptionError),
        (changed(examples.RANK_ONE, SHAPE, [2, 2**11, 2**12]), CorruptionError),
        (parameters(examples.ROOT, 229, None), CorruptionError),
        (parameters(examples.ROOT, 256, ID), CorruptionError),
        (changed(examples.ROOT, CODES, []), CorruptionError),
        (parameters(examples.DERIVED, ID, "toward-zero"), UnsupportedFormatError),
        (parameters(examples.DERIVED, ID, 0), UnsupportedFormatError),
        (parameters(examples.DERIVED, b"", "nearest-even"), CorruptionError),
        (changed(examples.DERIVED, NAME, "float32"), UnsupportedFormatError),
        (changed(examples.DERIVED, CODES, [ID]), CorruptionError),
        (changed(examples.CONSTANT, SHAPE, [2**36 + 1]), CorruptionError),
        (changed(examples.ABSENT, SHAPE, [2**18, 2**19]), CorruptionError),
        (parameters(examples.CONSTANT, b"\x00"), CorruptionError),
        (parameters(examples.CONSTANT, 0), CorruptionError),
        (changed(examples.CONSTANT, EXCEPTIONS, [None]), CorruptionError),
        (parameters(examples.ABSENT, 0), CorruptionError),
        (changed(examples.ABSENT, CODES, [ID]), CorruptionError),
        (changed(examples.ABSENT, DIGESTS, bytes(16)), CorruptionError),
        (changed(examples.LATTICE, DIGESTS, bytes(32)), CorruptionError),
        (changed(examples.LATTICE, DIGESTS, b""), CorruptionError),
        (changed(examples.LATTICE, DIGESTS, [bytes(16)]), CorruptionError),
        (parameters(examples.ROOT, 229, ID), CorruptionError),
        (changed(examples.ROOT, SHAPE, [3, 2]), CorruptionError),
        (changed(examples.DERIVED, SHAPE, [2, 2]), CorruptionError),
        (parameters(examples.DERIVED, examples.DERIVED.id, "nearest-even"), CorruptionError),
        (examples.LATTICE.items(lambda other: other.id)[:6], CorruptionError),
        (changed(examples.ABSENT, FORM, True), UnsupportedFormatError),
        (changed(examples.ABSENT, FORM, "absent"), UnsupportedFormatError),
        (changed(examples.ABSENT, FORM, 6), UnsupportedFormatError),
        (changed(examples.ABSENT, FORM, 2**64), UnsupportedFormatError),
    ],
)
def test_malformed_forms_are_refused(items, error):
    with pytest.raises(error):
        QuantizedTensor.read(items, resolved)


def test_a_tensor_names_the_chunks_and_tensors_it_needs():
    log = examples.LOG_LATTICE
    assert set(log.chunk_ids()) == {*log.codes, log.parameters.rows, log.parameters.cols}
    assert examples.LATTICE.chunk_ids() == [*examples.LATTICE.codes, *examples.LATTICE.exceptions]
    assert examples.ROOT.source == log
    assert examples.DERIVED.source == examples.LATTICE
    assert (examples.ABSENT.chunk_ids(), examples.ABSENT.source, log.source) == ([], None, None)


def test_chunks_are_counted_on_the_grid_without_codes_too():
    assert (examples.ABSENT.chunk_count, examples.RANK_ONE.chunk_count) == (1, 1)
    assert (examples.ABSENT.width, examples.LATTICE.width, examples.QUANTIZED.width) == (0, 2, 1)


def test_only_a_table_has_a_table():
    assert examples.QUANTIZED.levels == 3
    with pytest.raises(UnsupportedFormatError):
        _ = examples.LATTICE.table
