"""The two sides of a comparison: a commit, the working files, or nothing; all of it or some files."""

from collections.abc import Collection
from dataclasses import replace

from mvcs.history.graph import Revision
from mvcs.objects.tree import Tree
from mvcs.objects.tree_files import files_in, part_of
from mvcs.repository.allowance import UNLIMITED, Allowance
from mvcs.repository.comparing import Side, side_of
from mvcs.repository.restoring import Reading, open_best
from mvcs.repository.session import Session
from mvcs.repository.working import captured_chunks, hashed_tree
from mvcs.repository.worktree import capture_present

NOTHING = Side(Tree((), files=()), lambda _: iter(()))


def committed(
    session: Session, revision: Revision, names: Collection[str], allowance: Allowance = UNLIMITED
) -> Side:
    """Open a commit as a side; with `names` only these files, and those in these folders."""
    reading = open_best(session.reader(), revision, session.progress, allowance=allowance)
    return side_of(narrowed(reading, names))


def narrowed(reading: Reading, names: Collection[str]) -> Reading:
    """Return a reading of some of a commit's files; of all where no name is given."""
    if not names:
        return reading
    return replace(reading, tree=part_of(reading.tree, files_in(reading.tree, names)))


def working(session: Session, names: Collection[str]) -> Side:
    """Capture those of HEAD's files that are in the folder; with `names` only these."""
    captured = capture_present(session, names)
    return Side(hashed_tree(captured), lambda index: captured_chunks(captured, index))
