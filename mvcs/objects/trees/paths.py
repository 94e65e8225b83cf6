"""Paths of committed files: which can be named at all, and which act on whoever restores them.

A file below a folder that a tool takes for its own is more than data: the next `git status` runs what
`.git/config` names. File systems take many spellings for one name, so all of them are judged.
"""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from mvcs.errors import CorruptionError, some_of

MAX_PATH = 4096
MAX_PARTS = 256  # deeper folders exist nowhere, and walking them exhausts the stack
STORE_FOLDER = ".mvcs"
TOOL_FOLDERS = frozenset({".git", ".hg", ".svn", ".jj", ".sl", ".bzr", "_darcs", STORE_FOLDER})
# What makes any folder one of git's: with `commondir` the others are looked for where it says.
_BARE = (frozenset({"head", "objects", "refs"}), frozenset({"head", "commondir"}))
_BARE_NAMES = frozenset.union(*_BARE)
BARE_NAMES = ("HEAD", "objects", "refs", "commondir")
MAX_NAME = 255
"""Bytes of a name, which is what ext4, XFS, ZFS and APFS hold at most."""
# Characters that some file system leaves out of a comparison: category Cf, and Default_Ignorable_Code_Point.
_IGNORED = re.compile(
    "[\u00ad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000110bd\U000110cd"
    "\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


"""Those names as git spells them."""

# Lone surrogates stand for bytes of a file name that are not UTF-8 (PEP 383); others have no bytes at all.
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f\\\ud800-\udc7f\udd00-\udfff]")
_DRIVE = re.compile(r"[A-Za-z]:")
# What Windows calls them where names have eight letters.
_SHORT = re.compile(r"(git|hg|svn|jj|sl|bzr|mvcs)~\d+")
_HEADS = (*TOOL_FOLDERS, *(f"{name.removeprefix('.')}~" for name in TOOL_FOLDERS))
_HEAD = max(map(len, _HEADS))


def safe_path(path: str) -> str:
    """Return `path` when it names a file inside a folder: relative, forward slashes, no dot segments.

    Raises:
        CorruptionError: it could name something outside, or means different things on different systems.
    """
    bad = len(path) > MAX_PATH or _FORBIDDEN.search(path) or _DRIVE.match(path)
    # Some systems ignore case, and dots and spaces at the end of a name.
    parts, names = path.split("/"), [part.rstrip(". ") for part in path.casefold().split("/")]
    if bad or not all(names) or STORE_FOLDER in names:
        raise CorruptionError(f"the path {path[:MAX_PATH]!r} does not stay inside the target folder")
    if len(parts) > MAX_PARTS:
        raise CorruptionError(f"the path {path[:80]!r}... has {len(parts)} parts, above {MAX_PARTS}")
    return path


def is_tool_folder(name: str) -> bool:
    """Tell whether a name is that of a folder of a version control tool, as the tool itself spells it."""
    return name.casefold() in TOOL_FOLDERS


def is_acting_name(name: str) -> bool:
    """Tell whether some file system takes a name for one that a version control tool acts on."""
    return is_acting_key(name_key(name))


def is_acting_key(key: str) -> bool:
    """Tell so of a name's key."""
    # Most names are told by how they begin; no longer text becomes one of these in NFKC.
    if not unicodedata.normalize("NFKC", key[:_HEAD]).casefold().startswith(_HEADS):
        return False
    # NTFS leaves out what follows a colon, and ignores dots and spaces at the end.
    seen = unicodedata.normalize("NFKC", key.partition(":")[0]).casefold().rstrip(". ")
    return seen in TOOL_FOLDERS or _SHORT.fullmatch(seen) is not None


def is_bare(names: Iterable[str]) -> bool:
    """Tell whether a folder that holds these names is one of git's, whatever its own name."""
    found = {name.casefold() for name in names}
    return any(needed <= found for needed in _BARE)


def acting_paths(paths: Iterable[str]) -> Iterator[str]:
    """Yield those of a commit's paths that act on whoever restores them."""
    known = list(paths)
    yield from (path for path in known if any(map(is_acting_name, path.split("/"))))
    yield from bare_heads(known)


def bare_heads(paths: Iterable[str]) -> Iterator[str]:
    """Yield the `HEAD` of each folder that a commit's paths make one of git's."""
    folders: dict[str, set[str]] = defaultdict(set)
    for path in paths:
        parts = path.split("/")
        for depth, part in enumerate(parts):
            if part.casefold() in _BARE_NAMES:
                folders["/".join(parts[:depth])].add(part)
    yield from (f"{folder or '.'}/HEAD" for folder, names in folders.items() if is_bare(names))


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


def name_key(name: str) -> str:
    """Return the key of a segment of a path: equal for names that some file system takes for one.

    What is ignored goes first; canonical forms and cases of one letter are the same (D145 of Unicode).
    """
    if name.isascii():
        return name.lower()
    decomposed = unicodedata.normalize("NFD", _IGNORED.sub("", name))
    return unicodedata.normalize("NFD", decomposed.casefold())
