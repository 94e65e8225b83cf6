"""Forms of quantized tensors: what they name, and what is refused in them."""

import pytest

from mvcs.errors import CorruptionError, UnsupportedFormatError
from mvcs.objects import cbor
from mvcs.objects.tensors import QuantizedTensor
from tests.format import examples

ID = examples.LATTICE.id


def changed(example, index, new):
    items = [*cbor.loads(example.encode())]
    items[index] = new
    return cbor.dumps(items)


def parameters(example, *fields):
    return changed(example, 3, list(fields))


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (parameters(examples.LATTICE, 256), CorruptionError),
        (parameters(examples.LATTICE, -1), CorruptionError),
        (parameters(examples.LATTICE, True), CorruptionError),
        (parameters(examples.LATTICE), CorruptionError),
        (parameters(examples.LATTICE, 1, 2), CorruptionError),
        (changed(examples.LATTICE, 3, None), CorruptionError),
        (changed(examples.LATTICE, 4, []), CorruptionError),
        (changed(examples.LATTICE, 5, []), CorruptionError),
        (changed(examples.LATTICE, 4, [ID, ID]), CorruptionError),
        (changed(examples.LATTICE, 2, [2**22 + 1]), CorruptionError),
        (changed(examples.LATTICE, 1, "int32"), UnsupportedFormatError),
        (changed(examples.LATTICE, 1, "float8_e5m2"), UnsupportedFormatError),
        (parameters(examples.LOG_LATTICE, 15, ID, ID), CorruptionError),
        (parameters(examples.LOG_LATTICE, 25, ID, ID), CorruptionError),
        (parameters(examples.LOG_LATTICE, 23, b"short", ID), CorruptionError),
        (parameters(examples.LOG_LATTICE, 23, ID), CorruptionError),
        (parameters(examples.RANK_ONE, 23, ID, None), CorruptionError),
        (parameters(examples.RANK_ONE, 23, None, None), CorruptionError),
        (changed(examples.RANK_ONE, 5, [None]), CorruptionError),
        (changed(examples.RANK_ONE, 2, [2**22 + 1, 2]), CorruptionError),
        (changed(examples.RANK_ONE, 2, [2, 2**11, 2**12]), CorruptionError),
        (parameters(examples.ROOT, 229, None), CorruptionError),
        (parameters(examples.ROOT, 256, ID), CorruptionError),
        (changed(examples.ROOT, 4, []), CorruptionError),
        (parameters(examples.DERIVED, ID, "toward-zero"), UnsupportedFormatError),
        (parameters(examples.DERIVED, ID, 0), UnsupportedFormatError),
        (parameters(examples.DERIVED, b"", "nearest-even"), CorruptionError),
        (changed(examples.DERIVED, 1, "float32"), UnsupportedFormatError),
        (changed(examples.DERIVED, 4, [ID]), CorruptionError),
        (parameters(examples.CONSTANT, b"\x00"), CorruptionError),
        (parameters(examples.CONSTANT, 0), CorruptionError),
        (changed(examples.CONSTANT, 5, [None]), CorruptionError),
        (parameters(examples.ABSENT, 0), CorruptionError),
        (changed(examples.ABSENT, 4, [ID]), CorruptionError),
        (changed(examples.ABSENT, 0, True), UnsupportedFormatError),
        (changed(examples.ABSENT, 0, "absent"), UnsupportedFormatError),
        (changed(examples.ABSENT, 0, 6), UnsupportedFormatError),
        (changed(examples.ABSENT, 0, 2**64), UnsupportedFormatError),
    ],
)
def test_malformed_forms_are_refused(content, error):
    with pytest.raises(error):
        QuantizedTensor.decode(content)


def test_a_tensor_names_the_chunks_and_tensors_it_needs():
    log = examples.LOG_LATTICE
    assert set(log.chunk_ids()) == {*log.codes, log.parameters.rows, log.parameters.cols}
    assert examples.LATTICE.chunk_ids() == [*examples.LATTICE.codes, *examples.LATTICE.exceptions]
    assert examples.ROOT.tensor_ids() == [log.id]
    assert examples.DERIVED.tensor_ids() == [examples.LATTICE.id]
    assert (examples.ABSENT.chunk_ids(), examples.ABSENT.tensor_ids(), log.tensor_ids()) == ([], [], [])


def test_chunks_are_counted_on_the_grid_without_codes_too():
    assert (examples.ABSENT.chunk_count, examples.RANK_ONE.chunk_count) == (1, 1)
    assert (examples.ABSENT.width, examples.LATTICE.width, examples.QUANTIZED.width) == (0, 2, 1)


def test_only_a_table_has_a_table():
    assert examples.QUANTIZED.levels == 3
    with pytest.raises(UnsupportedFormatError):
        _ = examples.LATTICE.table
