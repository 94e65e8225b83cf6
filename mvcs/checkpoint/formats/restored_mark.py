"""The mark of a lossily restored safetensors file: one field of its metadata, which commits leave out.

It is text put into a header of committed bytes, and taken out again without a byte of them changing.
"""

import json
import re
from dataclasses import dataclass
from typing import Final

from mvcs.checkpoint.formats.safetensors_header import LENGTH_BYTES, MAX_HEADER, METADATA_KEY

FIELD: Final = "mvcs.restored"
_VALUE = re.compile(r'"([0-9a-f]{64}) value *"')
_SPACE = " \t\n\r"
_READER = json.JSONDecoder()


@dataclass(frozen=True)
class _Member:
    """One member of a JSON object: where its key begins, where its value does, and where that ends."""

    begin: int
    value: int
    end: int


def marked(header: bytes, commit: str) -> bytes:
    """Return a header that says from which commit's value layer the file was restored.

    A header that has no place for it stays as it is: one without tensors, one whose metadata are null, or
    one that would be longer than readers take.

    Args:
        header: as `parse_header` reads it.
        commit: 64 hexadecimal digits.
    """
    text = unmarked(header)[0].decode()
    members = _members(text, 0)
    metadata = members.get(METADATA_KEY)
    if not members.keys() - {METADATA_KEY} or (metadata is not None and text[metadata.value] != "{"):
        return header
    begin = 1 if metadata is None else metadata.value + 1
    if metadata is None:
        inserted = _padded(f'"{METADATA_KEY}":{{"{FIELD}":"{commit} value', '"},')
    else:
        is_empty = not _members(text, metadata.value)
        inserted = _padded(f'"{FIELD}":"{commit} value"' + ("" if is_empty else ","), " " * is_empty)
    found = (text[:begin] + inserted + text[begin:]).encode()
    return found if len(found) <= MAX_HEADER else header


def unmarked(header: bytes) -> tuple[bytes, str | None]:
    """Return a header without its mark, and the commit that it names; None for a header without one."""
    if FIELD.encode() not in header:
        return header, None
    text = header.decode()
    metadata = _members(text, 0).get(METADATA_KEY)
    inner = {} if metadata is None or text[metadata.value] != "{" else _members(text, metadata.value)
    field = inner.get(FIELD)
    value = None if field is None else _VALUE.fullmatch(text, field.value, field.end)
    if metadata is None or field is None or value is None:
        return header, None
    # In metadata that were empty spaces stand behind the field, so these were made for it.
    is_own = len(inner) == 1 and text[field.end] == "}" and text[metadata.end] == ","
    begin, end = (metadata.begin, metadata.end + 1) if is_own else _without(text, field)
    return (text[:begin] + text[end:]).encode(), value[1]


def _padded(before: str, behind: str) -> str:
    """Return what is inserted, of a length that leaves the data where they are aligned."""
    return before + " " * (-len(before + behind) % LENGTH_BYTES) + behind


def _without(text: str, field: _Member) -> tuple[int, int]:
    """Return the span of a member with its comma, the one behind or else the one before, and its padding."""
    comma = _skip(text, field.end)
    before = text[: field.begin].rstrip(_SPACE)
    if text[comma] != "," and before.endswith(","):
        return len(before) - 1, field.end
    end, behind = (comma + 1, "") if text[comma] == "," else (field.end, " ")
    held = text[field.begin : end]
    padding = len(_padded(held, behind)) - len(held)
    spaces = len(text[end:]) - len(text[end:].lstrip(" "))
    return field.begin, end + min(padding, spaces)


def _members(text: str, begin: int) -> dict[str, _Member]:
    """Return the members of the JSON object that begins somewhere, by key."""
    found = {}
    at = _skip(text, begin + 1)
    while text[at] != "}":
        key, colon = _READER.raw_decode(text, at)
        value = _skip(text, _skip(text, colon) + 1)
        end = _READER.raw_decode(text, value)[1]
        found[key] = _Member(at, value, end)
        at = _skip(text, end)
        at = _skip(text, at + 1) if text[at] == "," else at
    return found


def _skip(text: str, at: int) -> int:
    while text[at] in _SPACE:
        at += 1
    return at
