"""The memory of tensors as a pickle of torch.save names it: storages, and views of them."""

from mvcs.checkpoint.torch_files.stand_ins import Made, Named, Storage, odd

_WIDTHS = {
    "ByteStorage": 1,
    "CharStorage": 1,
    "BoolStorage": 1,
    "QInt8Storage": 1,
    "QUInt8Storage": 1,
    "QUInt4x2Storage": 1,
    "QUInt2x4Storage": 1,
    "ShortStorage": 2,
    "HalfStorage": 2,
    "BFloat16Storage": 2,
    "IntStorage": 4,
    "FloatStorage": 4,
    "QInt32Storage": 4,
    "LongStorage": 8,
    "DoubleStorage": 8,
    "ComplexFloatStorage": 8,
    "ComplexDoubleStorage": 16,
}
STORAGES = {
    **{f"torch.{name}": width for name, width in _WIDTHS.items()},
    "torch.storage.UntypedStorage": 1,
}


def storage(identity: Made) -> tuple[Storage, Storage]:
    """Return a whole storage and the part of it that is asked for.

    Raises:
        UnpicklingError: it is described in no way of torch.save.
    """
    if not isinstance(identity, tuple) or len(identity) not in (5, 6) or identity[0] != "storage":
        raise odd("what lies outside the pickle")
    kind, key, _, elements, *view = identity[1:]
    width = STORAGES.get(kind.name) if isinstance(kind, Named) else None
    if width is None or not isinstance(key, str) or not is_size(elements):
        raise odd("a storage")
    whole = Storage(key, width, elements)
    if view in ([], [None]):
        return whole, whole
    return whole, _view(whole, view[0])


def _view(whole: Storage, view: Made) -> Storage:
    if not isinstance(view, tuple) or len(view) != 3 or not all(map(is_size, view[1:])):
        raise odd("a view of a storage")
    if view[1] + view[2] > whole.elements:
        raise odd("a view of a storage")
    return Storage(whole.key, whole.itemsize, view[2])


def is_size(value: Made) -> bool:
    """Tell whether a value can be a number of elements."""
    return type(value) is int and 0 <= value < 1 << 62
