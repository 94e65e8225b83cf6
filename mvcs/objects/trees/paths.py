"""Paths of committed files: which can be named at all, and which act on whoever restores them.

A file below a folder that a tool takes for its own is more than data: the next `git status` runs what
`.git/config` names. File systems take many spellings for one name, so all of them are judged.
"""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator

from mvcs.errors import CorruptionError
from mvcs.objects.trees.name_keys import name_key

MAX_PATH = 4096
MAX_PARTS = 256  # deeper folders exist nowhere, and walking them exhausts the stack
STORE_FOLDER = ".mvcs"
TOOL_FOLDERS = frozenset({".git", ".hg", ".svn", ".jj", ".sl", ".bzr", "_darcs", STORE_FOLDER})
# What makes any folder one of git's: with `commondir` the others are looked for where it says.
_BARE = (frozenset({"head", "objects", "refs"}), frozenset({"head", "commondir"}))
_BARE_NAMES = frozenset.union(*_BARE)
BARE_NAMES = ("HEAD", "objects", "refs", "commondir")
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
