"""The rows of a footer that ends a commit anew: with the stored bytes of before, this pack's among them.

`docs/format/moved-bases.md` is the specification.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from mvcs.objects import Commit
from mvcs.store.packs.written_commit import WrittenCommit

Rows = tuple[WrittenCommit, ...]
LengthOf = Callable[[Rows, bool], int]
"""Tells how long the pack gets that some rows end; the flag says whether its footer is written plainly."""

_ROUNDS = 3  # in which a number of bytes beside a pack is drawn near
_AROUND = 6  # numbers that are tried from there


def fitting_rows(commits: Rows, length_of: LengthOf) -> tuple[Rows, bool]:
    """Return the rows with the stored bytes of the first less the length that this pack will have.

    The length depends a little on how that number is written, so that no number may fit. Then there are fewer
    copies, but never of parents: nothing else says which packs end these. Before most of them go, the footer
    is written plainly, which is told. What fits nowhere is a few bytes off.
    """
    every, fewest = len(commits), len(nearest_rows(commits))
    half = max(fewest, every // 2 + 1)
    ways = [(count, False) for count in range(every, half - 1, -1)]
    ways += [(every, True), *((count, False) for count in range(half - 1, fewest - 1, -1))]
    for count, plain in ways:
        stored, missed = _nearest(commits[:count], length_of, plain=plain)
        if missed == 0:
            return (replace(commits[0], stored_bytes=stored), *commits[1:count]), plain
    # It is larger than all that was stored at first, and says so; or a step in how numbers are written.
    stored, _ = _nearest(commits, length_of, plain=False)
    return (replace(commits[0], stored_bytes=stored), *commits[1:]), False


def nearest_rows(commits: Sequence[WrittenCommit]) -> Rows:
    """Return the first row, and the copies up to that of the last parent."""
    parents = set(Commit.decode(commits[0].content).parents)
    last = max((number for number, row in enumerate(commits) if row.id in parents), default=0)
    return tuple(commits[: last + 1])


def _nearest(commits: Rows, length_of: LengthOf, *, plain: bool) -> tuple[int, int]:
    """Return the stored bytes that fit the first row best, and how many too few they are."""

    def missed(stored: int) -> int:
        rows = (replace(commits[0], stored_bytes=stored), *commits[1:])
        return commits[0].stored_bytes - stored - length_of(rows, plain)

    near = 0
    for _ in range(_ROUNDS):
        near = max(0, near + missed(near))
    best = (near, missed(near))
    for stored in range(max(0, near - _AROUND), near + _AROUND):
        if best[1] == 0:
            break
        best = min(best, (stored, missed(stored)), key=lambda one: abs(one[1]))
    return best
