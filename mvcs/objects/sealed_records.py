"""Small numbered records as files: a magic with the version in its last byte, canonical bytes, a checksum."""

from mvcs.errors import CorruptionError, UnsupportedFormatError
from mvcs.objects import cbor
from mvcs.objects.ids import checksum

CHECKSUM_BYTES = 16
MAX_NUMBER = 99_999_999
_FEW_VALUES = 1 << 12
_BYTES_OF_A_VALUE = 4  # at least, on average: a value that is read takes twenty times as many


def record_name(number: int) -> str:
    """Return the file name of the record of a number: counts down, so that the newest is listed first."""
    return f"{MAX_NUMBER - number:08d}"


def record_number(path: str) -> int:
    """Return the number of the record that lies at a path, as its file name tells."""
    return MAX_NUMBER - int(path.rpartition("/")[2])


def is_record_name(name: str) -> bool:
    """Tell whether a file among records has the name of one."""
    return len(name) == len(str(MAX_NUMBER)) and name.isascii() and name.isdigit()


def seal(magic: bytes, value: cbor.Value) -> bytes:
    """Return the bytes of the file that holds `value`."""
    body = magic + cbor.dumps(value)
    return body + checksum(body)


def unseal(magic: bytes, data: bytes, what: str, limit: int) -> cbor.Value:
    """Check the bytes of a file and return the value it holds.

    Args:
        magic: the kind of record; its last byte is the version.
        data: the whole file; it may be hostile.
        what: names the kind of record in messages.
        limit: the largest file that is read.

    Raises:
        CorruptionError: it is not such a record, or does not match its checksum.
        UnsupportedFormatError: another version wrote it.
    """
    body, stored = data[:-CHECKSUM_BYTES], data[-CHECKSUM_BYTES:]
    if not body.startswith(magic[:-1]) or not len(magic) < len(body) <= limit - CHECKSUM_BYTES:
        raise CorruptionError(f"it is not {what}")
    if not body.startswith(magic):
        raise UnsupportedFormatError("it has a format this version does not know", hint="upgrade mvcs")
    if checksum(body) != stored:
        raise CorruptionError("it does not match its checksum")
    return cbor.loads(body[len(magic) :], _FEW_VALUES + len(body) // _BYTES_OF_A_VALUE)
