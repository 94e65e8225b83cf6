"""The two sides of a comparison: a commit, the working files, or nothing; all of it or some files."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest

from mvcs.checkpoint import Captured
from mvcs.errors import NotFoundError, UsageError
from mvcs.history import Revision
from mvcs.objects import Tree, children_of, narrowed_tree
from mvcs.quantize import Resolution
from mvcs.repository.session import Session
from mvcs.repository.worktree.file_index import Index, captured_chunks, hashed_tree
from mvcs.repository.worktree.files_to_commit import capture_present, tree_before
from mvcs.restore import ComparedSide, Reading, on_neither_side_error, open_best, open_reading, side_of


def instead_of_files(session: Session, a: Revision | None) -> Revision | None:
    """Return HEAD where it holds a state, which no files stand for; None where its files are compared.

    Args:
        session: the repository.
        a: what it is compared with; None for nothing.

    Raises:
        UsageError: that is HEAD itself.
    """
    head = session.head()
    tree = tree_before(session, head)
    if head is None or tree is None or tree.files is not None:
        return None
    if a is not None and a.id == head.id:
        other = (
            "'mvcs diff HEAD~1 HEAD' compares two commits"
            if head.commit.parents
            else "'mvcs show' tells of it"
        )
        raise UsageError(
            "HEAD holds a state, committed from Python, and no files to compare with the folder", hint=other
        )
    return head


def _exactly(_: int) -> None:
    """Give no steps: nothing was quantized."""


def _is_empty(tree: Tree) -> bool:
    return not (any(children_of(tree.root)) if tree.files is None else tree.files)


NOTHING = ComparedSide(Tree((), files=()), lambda _: iter(()))
FILES = "files"


@dataclass(frozen=True)
class Sides:
    """Opens what is compared, so that like stands beside like.

    Attributes:
        session: the repository.
        names: only these files, and those in these folders; none for all.
        exact: True for exact values alone, False for what a checkout restores; None for exact values where
            both sides have them, else for what a checkout restores.
    """

    session: Session
    names: Collection[str]
    exact: bool | None = None

    def between(self, a: Revision | None, b: Revision | None) -> tuple[ComparedSide, ComparedSide]:
        """Open a commit, or nothing, and another; None for the working files.

        Raises:
            NotFoundError: neither side has anything of the names; or exact values that are asked for.
        """
        found = self.with_files(a) if b is None else self.of(a, b)
        if self.names and all(_is_empty(side.tree) for side in found):
            self._refuse_unknown(a, b)
        return found

    def _refuse_unknown(self, a: Revision | None, b: Revision | None) -> None:
        session, top = self.session, self.session.place.top
        if "." in self.names:
            return
        if b is None and top is not None and any((top / name).exists() for name in self.names):
            return  # a file that no commit has yet
        revisions = [found for found in (a, b or session.head()) if found is not None]
        trees = [open_reading(session.reader(), found, session.progress).tree for found in revisions]
        if all(_is_empty(narrowed_tree(tree, self.names)) for tree in trees):
            raise on_neither_side_error(self.names, trees)

    def of(self, a: Revision | None, b: Revision | None) -> tuple[ComparedSide, ComparedSide]:
        """Open two commits; None stands for nothing.

        Raises:
            NotFoundError: exact values are asked for, and a side's are not stored.
        """
        exact = self.exact is not False
        try:
            return self._commit(a, exact=exact), self._commit(b, exact=exact)
        except NotFoundError:
            if self.exact:
                raise
            return self._commit(a, exact=False), self._commit(b, exact=False)

    def with_files(self, a: Revision | None) -> tuple[ComparedSide, ComparedSide]:
        """Open a commit, or nothing, and the files in the folder that HEAD has.

        Files that were restored without their exact values are compared with what was restored.

        Raises:
            NotFoundError: exact values are asked for, and are not stored.
        """
        captured = capture_present(self.session, self.names)
        restored = {path for path, found in Index.of(self.session).files.items() if found.lossy}
        tree = hashed_tree(captured)
        resolution = self._restored_steps(captured, tree, restored) if restored else _exactly
        # What lies in the folder as files takes as much room there.
        right = ComparedSide(
            tree,
            partial(captured_chunks, captured),
            FILES,
            resolution,
            lambda indices: sum(tree.leaves[index].raw_bytes for index in indices),
        )
        if a is None or self.exact is not None:
            return self._commit(a, exact=bool(self.exact)), right
        session = self.session
        reading = open_best(session.reader(), a, session.progress, allowance=session.allowance)
        narrowed = self._narrowed(reading)
        paths = enumerate(narrowed.tree.leaf_paths())
        return side_of(narrowed, {index for index, path in paths if path and path[0] in restored}), right

    def _restored_steps(
        self, captured: Captured, tree: Tree, restored: Collection[str]
    ) -> Callable[[int], Resolution | None]:
        """Return what gives the steps of leaves that are as HEAD restores them without its exact layer."""
        session, head = self.session, self.session.head()
        if head is None:
            return _exactly
        before = side_of(open_reading(session.reader(), head, session.progress))
        there = {path: number for number, path in enumerate(before.tree.leaf_paths())}
        paths = tree.leaf_paths()

        def steps(number: int) -> Resolution | None:
            twin = there.get(paths[number]) if paths[number][0] in restored else None
            found = None if twin is None else before.resolution(twin)
            if twin is None or found is None:
                return None
            pairs = zip_longest(captured_chunks(captured, number), before.chunks(twin))
            return found if all(mine == theirs for mine, theirs in pairs) else None

        return steps

    def _commit(self, revision: Revision | None, *, exact: bool) -> ComparedSide:
        if revision is None:
            return NOTHING
        session = self.session
        reading = open_reading(
            session.reader(), revision, session.progress, exact=exact, allowance=session.allowance
        )
        return side_of(self._narrowed(reading))

    def _narrowed(self, reading: Reading) -> Reading:
        if not self.names:
            return reading
        return replace(reading, tree=narrowed_tree(reading.tree, self.names))
