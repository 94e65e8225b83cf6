"""The memory of tensors as a pickle of torch.save names it: storages, and views of them."""

from mvcs.checkpoint.torch_files.stand_ins import Made, Named, Storage, odd
from mvcs.objects import DTYPES

# The element type of each kind of storage; of quantized ones, that of the numbers in it.
_TYPES = {
    "ByteStorage": "uint8",
    "CharStorage": "int8",
    "BoolStorage": "bool",
    "QInt8Storage": "int8",
    "QUInt8Storage": "uint8",
    "QUInt4x2Storage": "uint8",
    "QUInt2x4Storage": "uint8",
    "ShortStorage": "int16",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "IntStorage": "int32",
    "FloatStorage": "float32",
    "QInt32Storage": "int32",
    "LongStorage": "int64",
    "DoubleStorage": "float64",
    "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128",
}
STORAGES = {
    **{f"torch.{name}": DTYPES[dtype] for name, dtype in _TYPES.items()},
    "torch.storage.UntypedStorage": DTYPES["uint8"],
}


def storage(identity: Made) -> tuple[Storage, Storage]:
    """Return a whole storage and the part of it that is asked for.

    Raises:
        UnpicklingError: it is described in no way of torch.save.
    """
    if not isinstance(identity, tuple) or len(identity) not in (5, 6) or identity[0] != "storage":
        raise odd("what lies outside the pickle")
    kind, key, _, elements, *view = identity[1:]
    dtype = STORAGES.get(kind.name) if isinstance(kind, Named) else None
    if dtype is None or not isinstance(key, str) or not is_size(elements):
        raise odd("a storage")
    whole = Storage(key, dtype, elements)
    if view in ([], [None]):
        return whole, whole
    return whole, _view(whole, view[0])


def _view(whole: Storage, view: Made) -> Storage:
    if not isinstance(view, tuple) or len(view) != 3 or not all(map(is_size, view[1:])):
        raise odd("a view of a storage")
    if view[1] + view[2] > whole.elements:
        raise odd("a view of a storage")
    return Storage(whole.key, whole.dtype, view[2])


def is_size(value: Made) -> bool:
    """Tell whether a value can be a number of elements."""
    return type(value) is int and 0 <= value < 1 << 62
