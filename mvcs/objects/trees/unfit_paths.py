"""Paths that no commit may bring into a folder, on any system, since it travels to others.

The one rule for a commit of files and for whoever writes them.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from mvcs.errors import CorruptionError, some_of
from mvcs.objects.trees.name_keys import name_key
from mvcs.objects.trees.paths import bare_heads, is_acting_key, safe_path

MAX_NAME = 255
"""Bytes of a name, which is what ext4, XFS, ZFS and APFS hold at most."""
_SHOWN = 20
_LONG = 200  # characters of a path in a message
# A device is one with any suffix too, which spaces may stand before.
_DEVICE = r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[1-9\xb9\xb2\xb3]) *(\..*)?"
# Most names have nothing of this, and are looked at no further.
_ODD = re.compile(r"[<>\"|?*:~\x80-\U0010ffff]|^([._]|con|prn|aux|nul|com|lpt)|[. ]$")


class UnfitReason(StrEnum):
    """Why a path is unfit, as a message says it."""

    MALFORMED = "it may lead out of the folder, or holds a character that means something else elsewhere"
    ACTING = "version control tools would act on it"
    CHARACTER = 'Windows holds no name with one of < > " | ? *'
    STREAM = "Windows takes what follows a colon for a stream of another file"
    DEVICE = "Windows takes it for a device"
    ENDING = "Windows leaves out dots and spaces at the end of a name"
    LONG = f"common systems hold names of {MAX_NAME} bytes at most"
    ALIKE = "macOS and Windows take them for one name"


_BY_KEY = (
    (UnfitReason.CHARACTER, re.compile(r"[<>\"|?*]")),
    (UnfitReason.STREAM, re.compile(":")),
    (UnfitReason.DEVICE, re.compile(f"(?s:^{_DEVICE}$)")),
    (UnfitReason.ENDING, re.compile(r"[. ]$")),
)


@dataclass(frozen=True, slots=True)
class UnfitPath:
    """A path that is unfit, and up to where.

    Attributes:
        reason: why.
        path: a path of a commit.
        end: how many of its characters name the file or folder that is meant.
        other: what another path calls that file or folder, when the two are alike.
    """

    reason: UnfitReason
    path: str
    end: int
    other: str | None = None

    @property
    def places(self) -> tuple[str, ...]:
        """The files or folders that are meant: one, or two that are alike."""
        place = self.path[: self.end]
        if self.other is None:
            return (place,)
        return (place[: place.rfind("/") + 1] + self.other, place)


def unfit_paths(paths: Iterable[str]) -> list[UnfitPath]:
    """Return what is unfit among all the paths of a commit, each file or folder once.

    Paths are looked at together, since two of them may be alike. Time and memory are linear in their length.
    """
    ordered = sorted(set(paths))
    malformed = {path for path in ordered if not _is_safe(path)}
    safe = [path for path in ordered if path not in malformed]
    whole = [(UnfitReason.MALFORMED, path) for path in ordered if path in malformed]
    whole += [(UnfitReason.ACTING, head) for head in bare_heads(safe)]
    return [*(UnfitPath(reason, path, len(path)) for reason, path in whole), *_unfit_names(safe)]


def unfit_text(found: Sequence[UnfitPath], one: str, many: str) -> str:
    """Return what a message says of unfit paths: by reasons, the first of each and how many more.

    Args:
        found: the paths, at least one.
        one: what becomes of one, such as "is not restored".
        many: the same of several.
    """
    groups = [(reason, [unfit for unfit in found if unfit.reason is reason]) for reason in UnfitReason]
    return "; ".join(_group_text(reason, group, one, many) for reason, group in groups if group)


def _group_text(reason: UnfitReason, group: Sequence[UnfitPath], one: str, many: str) -> str:
    names = [" and ".join(map(_quoted, unfit.places)) for unfit in group[:_SHOWN]]
    names += [""] * (len(group) - len(names))
    several = len(group) > 1 or group[0].other is not None
    return f"{some_of(names, _SHOWN)} {many if several else one}: {reason}"


def _quoted(path: str) -> str:
    """Return a path for a message; what would not be seen in it is spelt out."""
    shown = path if len(path) <= _LONG else f"{path[:_LONG]}..."
    return f"'{shown}'" if shown.isprintable() else ascii(shown)


def _is_safe(path: str) -> bool:
    try:
        safe_path(path)
    except CorruptionError:
        return False
    return True


def _unfit_names(paths: Iterable[str]) -> Iterator[UnfitPath]:
    """Yield what is unfit in sorted paths by their names.

    What lies in one folder stands together, so that a folder is looked at once.
    """
    alike: dict[tuple[int, str], tuple[int, str]] = {}
    before: list[str] = []
    above = [0]  # the numbers of the folders that the last path lies in; those that are alike have one
    for path in paths:
        parts = path.split("/")
        same = _shared(before, parts)
        del above[same + 1 :]
        end = sum(map(len, parts[:same])) + same - 1
        for name in parts[same:]:
            end += len(name) + 1
            key = name_key(name)
            number, other = alike.setdefault((above[-1], key), (len(alike) + 1, name))
            above.append(number)
            if other != name:
                yield UnfitPath(UnfitReason.ALIKE, path, end, other)
            reason = _why_unfit(name, key)
            if reason is not None:
                yield UnfitPath(reason, path, len(path) if reason is UnfitReason.ACTING else end)
        before = parts


def _shared(one: Sequence[str], other: Sequence[str]) -> int:
    """Return how many segments two paths begin with that are the same."""
    for depth, (mine, theirs) in enumerate(zip(one, other, strict=False)):
        if mine != theirs:
            return depth
    return min(len(one), len(other))


def _why_unfit(name: str, key: str) -> UnfitReason | None:
    if len(name) <= MAX_NAME and not _ODD.search(key):
        return None
    if is_acting_key(key):
        return UnfitReason.ACTING
    found = next((reason for reason, odd in _BY_KEY if odd.search(key)), None)
    return found or (UnfitReason.LONG if len(name.encode(errors="surrogateescape")) > MAX_NAME else None)
