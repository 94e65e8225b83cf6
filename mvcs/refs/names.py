"""How the name of a branch or tag becomes one path segment that every kind of store keeps apart."""

import re
from urllib.parse import unquote_to_bytes

from mvcs.errors import CorruptionError, UsageError
from mvcs.objects import is_whole

# New names stay below the 255 bytes of a file name, so that a remote's name or '.conflict-ID' still fits.
MAX_NEW, MAX_SEGMENT = 200, 255
# Behind a branch's name, and before digits of an id: the branch of a commit that could not go on the first.
CONFLICT = ".conflict-"
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789._-")
_DEVICES = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?")
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f~^:?*\[\]\\{}]|\.\.|@\{|//|^[-./]|[./]$")


def check_name(name: str) -> str:
    """Return `name` when it may name a branch or tag.

    Raises:
        UsageError: it would be ambiguous in a revision, or is too long.
    """
    refuse_ambiguous(name)
    if is_whole(name):
        raise UsageError(f"'{name}' looks like a commit's id", hint="choose another name")
    if len(encode_name(name)) > MAX_NEW:
        raise _too_long(name)
    return name


def refuse_ambiguous(name: str) -> None:
    """Check that a name of any length means nothing else in a revision.

    Raises:
        UsageError: it would.
    """
    if not name or name in ("HEAD", "@") or _FORBIDDEN.search(name):
        raise UsageError(
            f"{name!r} cannot name a branch or tag",
            hint="use letters, digits, and . _ - / inside; no spaces, no .., none of ~ ^ : ? * [ ] { } \\",
        )


def _too_long(name: str) -> UsageError:
    return UsageError(
        f"the name {name[:40]!r}... is too long", hint=f"keep it below {MAX_NEW} bytes when encoded"
    )


def encode_name(name: str) -> str:
    """Return one path segment: bytes outside `[a-z0-9._-]` as %XX, so that case-insensitive disks are safe.

    Names that some systems reserve (`con`, a leading or trailing dot) get their first or last byte encoded.

    Raises:
        UsageError: it has no UTF-8 form, is empty, or is too long for a file name.
    """
    try:
        data = name.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UsageError(f"{name!r} cannot name a ref: it is not valid text") from error
    special = {0} if _DEVICES.fullmatch(name) or data[:1] == b"." else set()
    if data[-1:] == b".":
        special.add(len(data) - 1)
    segment = "".join(
        chr(byte) if byte in _PLAIN and index not in special else f"%{byte:02X}"
        for index, byte in enumerate(data)
    )
    if not 0 < len(segment) <= MAX_SEGMENT:
        raise _too_long(name)
    return segment


def is_segment(segment: str) -> bool:
    """Tell whether `encode_name` could have written a path segment; other files there are not ours."""
    try:
        decode_name(segment)
    except CorruptionError:
        return False
    return True


def decode_name(segment: str) -> str:
    """Return the name a path segment stands for.

    Raises:
        CorruptionError: `encode_name` never writes this segment.
    """
    try:
        name = unquote_to_bytes(segment).decode("utf-8")
        if encode_name(name) == segment:
            return name
    except (UnicodeError, UsageError):
        pass
    raise CorruptionError(f"'{segment}' is not the name of a ref")
