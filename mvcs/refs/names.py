"""How the name of a branch or tag becomes one path segment that every disk and bucket keeps apart."""

import re
from urllib.parse import unquote_to_bytes

from mvcs.errors import CorruptionError, UsageError

MAX_SEGMENT = 200
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789._-")
_DEVICES = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?")
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f~^:?*\[\]\\{}]|\.\.|@\{|//|^[-./]|[./]$")


def check_name(name: str) -> str:
    """Return `name` when it may name a branch or tag.

    Raises:
        UsageError: it would be ambiguous in a revision, or is too long.
    """
    if not name or name in ("HEAD", "@") or _FORBIDDEN.search(name):
        raise UsageError(
            f"{name!r} cannot name a branch or tag",
            hint="use letters, digits, and . _ - / inside; no spaces, no .., none of ~ ^ : ? * [ ] { } \\",
        )
    if len(encode_name(name)) > MAX_SEGMENT:
        raise UsageError(
            f"the name {name[:40]!r}... is too long", hint=f"keep it below {MAX_SEGMENT} bytes when encoded"
        )
    return name


def encode_name(name: str) -> str:
    """Return one path segment: bytes outside `[a-z0-9._-]` as %XX, so that case-insensitive disks are safe.

    Names that some systems reserve (`con`, a leading or trailing dot) get their first or last byte encoded.
    """
    data = name.encode("utf-8")
    special = {0} if _DEVICES.fullmatch(name) or data[:1] == b"." else set()
    if data[-1:] == b".":
        special.add(len(data) - 1)
    return "".join(
        chr(byte) if byte in _PLAIN and index not in special else f"%{byte:02X}"
        for index, byte in enumerate(data)
    )


def is_segment(segment: str) -> bool:
    """Tell whether `encode_name` could have written a path segment; other files in the folder are not ours."""
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
    except UnicodeDecodeError:
        name = ""
    if not name or encode_name(name) != segment:
        raise CorruptionError(f"'{segment}' is not the name of a ref")
    return name
