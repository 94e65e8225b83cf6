"""The working files beside what HEAD holds."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mvcs.errors import some_of
from mvcs.ui.commits import oneline
from mvcs.ui.text import Screen, count, printable, size

if TYPE_CHECKING:
    from mvcs.reports import FileStatus, Status


_NAMED = 5
_CONFLICTS = 3
_LISTED = 20
_UNLIKE_HEAD = "Changed since HEAD (mvcs commit; or mvcs restore FILE --force to undo):"
_UNLIKE_AN_OLDER_ONE = "Changed since the newest commit that can be read:"
_MARKS = {"modified": " M", "deleted": " D", "untracked": "??"}
DETACHED = "HEAD is detached: new commits are on no branch (mvcs switch -c NAME makes one)"


def lines(value: "Status", screen: Screen) -> list[str]:
    """Return the branch, HEAD's commit, the files that differ from it, and what went wrong lately."""
    result = [f"On branch {printable(value.branch)}" if value.branch else DETACHED]
    result += [*_remote(value), *_conflicts(value), *_room(value), *_compacting(value)]
    missing = "Its commit cannot be read: see below" if value.unreadable else "No commit yet"
    result.append(oneline(value.head, [], screen) if value.head else missing)
    differing = [entry for entry in value.entries if entry.state in ("modified", "deleted")]
    changed = [f"  {entry.state + ':':<10} {printable(entry.path)}" for entry in differing]
    untracked = [f"  {printable(entry.path)}" for entry in value.entries if entry.state == "untracked"]
    if changed:
        result += ["", _UNLIKE_AN_OLDER_ONE if value.unreadable else _UNLIKE_HEAD]
        result += [screen.paint(line, "bad") for line in changed]
    if untracked:
        result += ["", "Not under version control (mvcs commit FILE...):"]
        result += [screen.paint(line, "dim") for line in [*untracked, *_others(value)]]
    result += _refused(value, screen)
    if not changed and value.head and not value.damaged:
        clean = sum(entry.state == "unmodified" for entry in value.entries)
        result += [
            "",
            f"{count(clean, 'file')} as committed"
            if clean
            else f"The commit holds {_held(value)} to compare",
        ]
    return [*result, *_problems(value, screen)]


def planned(found: Sequence["FileStatus"], branch: str | None) -> list[str]:
    """Return what would be committed, a line a file."""
    where = f"branch {printable(branch)}" if branch else "no branch"
    files = [
        f"  {file.state + ':':<11} {printable(file.path)}" for file in found if file.state != "unmodified"
    ]
    same = sum(file.state == "unmodified" for file in found)
    rest = [f"  {count(same, 'file')} as in the last commit"] if same else []
    rest += [] if found else ["  the files of the last commit as it has them"]
    return [f"Would be committed on {where}:", *files, *rest]


def short(value: "Status", *, branch: bool = False) -> list[str]:
    """Return a line a file that is not as committed, as `git status --short` does."""
    apart = zip(("ahead", "behind"), value.remote or (), strict=False)
    counts = ", ".join(f"{side} {number}" for side, number in apart if number)
    follows = f"...{printable(value.upstream)}" if value.upstream else ""
    title = f"## {printable(value.branch or 'HEAD (no branch)')}{follows}{f' [{counts}]' if counts else ''}"
    files = [(_MARKS.get(entry.state), entry.path) for entry in value.entries]
    files += [(_MARKS["untracked"], path) for path in (*value.others, *value.refused)]
    return [title] * branch + [f"{mark} {printable(path)}" for mark, path in files if mark]


def _others(value: "Status") -> list[str]:
    """Say what the list does not show, and a commit of the folder would take."""
    if not value.others:
        return []
    shown = some_of([printable(path) for path in value.others], _NAMED)
    return [f"  and {count(len(value.others), 'other')}, which 'mvcs commit .' takes too: {shown}"]


def _refused(value: "Status", screen: Screen) -> list[str]:
    """Name what a commit of the folder is refused for, and why."""
    if not value.refused:
        return []
    rest = len(value.refused) - _LISTED
    shown = [f"  {printable(path)}: {reason}" for path, reason in list(value.refused.items())[:_LISTED]]
    more = [f"  and {rest} more"] if rest > 0 else []
    title = "Refused by 'mvcs commit .' (rename it, or leave it out by a line in .mvcsignore):"
    return ["", title, *(screen.paint(line, "dim") for line in [*shown, *more])]


def _held(value: "Status") -> str:
    return "no files" if value.parts is None else "a state, committed from Python, and no files"


def _remote(value: "Status") -> list[str]:
    if value.remote is None:
        return []
    ahead, behind = value.remote
    upstream = printable(value.upstream or "its remote")
    if not ahead and not behind:
        return [f"Up to date with {upstream}, as last fetched"]
    sides = {"ahead of": ahead, "behind": behind}
    parts = [f"{count(commits, 'commit')} {side}" for side, commits in sides.items() if commits]
    todo = "mvcs push" if not behind else "mvcs pull" if not ahead else "mvcs pull says what can be done"
    return [f"{' and '.join(parts)} {upstream}, as last fetched ({todo})"]


def _room(value: "Status") -> list[str]:
    if value.room is None:
        return []
    taken, limit = map(size, value.room)
    return [f"The store takes {taken} of {limit} (store.max_bytes)"]


def _compacting(value: "Status") -> list[str]:
    if value.compacting is None:
        return []
    done, total = value.compacting
    return [f"Compacting in the background: {done} of {count(total, 'commit')}"]


def _conflicts(value: "Status") -> list[str]:
    """Name the branches of those who came second, and say how one goes on with them or drops them."""
    if not value.conflicts:
        return []
    number = count(len(value.conflicts), "conflict branch", "conflict branches")
    names = printable(some_of(value.conflicts, _CONFLICTS))
    todo = "'mvcs switch NAME' or resume(run='NAME') continues there, 'mvcs branch -D NAME' drops it"
    return [f"{number}: {names} ({todo})"]


def _problems(value: "Status", screen: Screen) -> list[str]:
    if not value.problems:
        return []
    return ["", "Problems:", *(screen.paint(f"  {printable(problem)}", "warn") for problem in value.problems)]
