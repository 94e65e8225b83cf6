"""What can stand at a place of a command line: revisions, files, tensors, remotes and settings.

Somebody waits for it between two keys: a store that does not lie on a disk of this machine is not asked, and
nothing is written. What is damaged is left out; whatever needs it says so.
"""

import pathlib
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, Self

from mvcs.config import DEFAULTS, Config
from mvcs.errors import MvcsError, NotFoundError
from mvcs.history import Revision, split_revision_file
from mvcs.local import HEAD, SEEN_REFS, TRUSTED_FILE, LocalRecords, Trust, place
from mvcs.local_files import real_path
from mvcs.objects import ABBREVIATED, ObjectId, Tree, is_prefix, path_text, short_id
from mvcs.progress import SILENT
from mvcs.refs import HEADS, NOTES, REMOTES, TAGS
from mvcs.repository.head_moves import moves_of
from mvcs.repository.session import Session
from mvcs.restore import open_reading

LOOKED_AT = 2000  # commits, newest first
_KINDS = {HEADS: "branch", TAGS: "tag", REMOTES: "branch of a remote"}


@dataclass(frozen=True)
class Candidate:
    """What can stand there.

    Attributes:
        text: the word.
        about: what a person should know of it.
        whole: whether nothing has to follow in the same word.
    """

    text: str
    about: str = ""
    whole: bool = True


class Candidates:
    """Those of the repository at a folder, or above it."""

    def __init__(self, start: pathlib.Path, trust: Trust | None = None) -> None:
        """Look for the repository.

        Raises:
            NotFoundError: there is none.
            UsageError: it belongs to another user.
        """
        top = place.top_of(start)
        if top is None:
            raise NotFoundError(f"'{start}' is not in an mvcs repository", hint="'mvcs init' makes one")
        self._top = top
        self._local = top / place.LOCAL
        self._trust = trust or Trust.of_user()
        self._trust.require_own(self._local, TRUSTED_FILE)
        self._config = Config(self._local / TRUSTED_FILE)

    def __enter__(self) -> Self:
        """Return the candidates."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the repository where it was opened."""
        opened: Session | None = self.__dict__.pop("_session", None)
        if opened is not None:
            opened.close()

    @cached_property
    def _session(self) -> Session | None:
        """The repository; None where the store lies elsewhere."""
        url = str(self._config.get("store.url") or "")
        if place.is_distant(url):
            return None
        return Session(place.find(str(self._top), None, self._trust), SILENT)

    def refs(self, *kinds: str) -> list[Candidate]:
        """Return the names of some kinds: `heads`, `tags` and `remotes`."""
        return [Candidate(name, _KINDS[kind]) for kind in kinds for name in self._names(kind)]

    def _names(self, kind: str) -> list[str]:
        if self._session is not None:
            return list(self._session.refs.survey(kind).whole)
        refs: Any = LocalRecords(self._local).read(SEEN_REFS).get("refs")
        names = [name for name in refs if isinstance(name, str)] if isinstance(refs, dict) else []
        return sorted(name.partition("/")[2] for name in names if name.startswith(f"{kind}/"))

    def to_switch(self) -> list[Candidate]:
        """Return branches, and those that only remotes have, which a switch makes here."""
        here = self.refs(HEADS)
        known = {one.text for one in here}
        there = [one.text.partition("/")[2] for one in self.refs(REMOTES)]
        return [
            *here,
            *(Candidate(name, _KINDS[REMOTES]) for name in dict.fromkeys(there) if name not in known),
        ]

    def revisions(self, start: str) -> list[Candidate]:
        """Return what names a commit and begins so: refs, HEAD, `step:N`, `best:NAME`, `main@{N}`, ids."""
        if start.startswith("step:"):
            return self._steps()
        if start.startswith("best:"):
            return self._best(start)
        if "@{" in start:
            return self._moves(start.partition("@{")[0])
        special = [
            Candidate("step:", "a commit by its step", whole=False),
            Candidate("best:", "the commit with the best value of a metric", whole=False),
        ]
        head = [Candidate("HEAD", "where the folder stands")]
        named = [*self.refs(HEADS, TAGS), *head, *self.refs(REMOTES), *(special if self._session else [])]
        return [*named, *(self._ids(start) if is_prefix(start) else ())]

    def _moves(self, name: str) -> list[Candidate]:
        """Return where a branch was before, or HEAD, as `main@{1}` names it."""
        if self._session is None:
            return []
        moves = moves_of(self._session, name or self._session.branch or HEAD)
        return [Candidate(f"{name}@{{{move.number}}}", move.action) for move in moves if move.commit]

    def _ids(self, start: str) -> Iterator[Candidate]:
        for revision in self._known():
            text = revision.id.hex()
            if text.startswith(start):
                shown = text if len(start) > ABBREVIATED else short_id(revision.id)
                yield Candidate(shown, revision.commit.message)

    def files_of(self, word: str) -> list[Candidate]:
        """Return the files of a commit, or parts of its state, that `REV:FILE` may go on to name."""
        split = split_revision_file(word)
        if split is None:
            return []
        rev, typed = split
        return [
            Candidate(f"{rev}:{found.text}", found.about, found.whole)
            for found in grouped_by_part([*self._paths(rev), *self._parts(rev)], typed, "/")
        ]

    def files(self, start: str, here: pathlib.Path) -> list[Candidate]:
        """Return HEAD's files, as they are named from a folder of the repository."""
        inside = real_path(here).relative_to(real_path(self._top)).as_posix()
        above = "" if inside == "." else f"{inside}/"
        return grouped_by_part(
            [path[len(above) :] for path in self._paths("HEAD") if path.startswith(above)], start, "/"
        )

    def _paths(self, rev: str) -> list[str]:
        tree = self._tree(rev)
        return [] if tree is None else [entry.path for entry in tree.files or ()]

    def _parts(self, rev: str) -> list[str]:
        tree = self._tree(rev)
        return [] if tree is None else tree.parts or []

    def tensors(self, rev: str, start: str) -> list[str]:
        """Return the names of a commit's tensors that begin so; where it has several files, behind theirs."""
        tree = self._tree(rev)
        if tree is None:
            return []
        inner = [path[0 if tree.files is None else 1 :] for path in tree.leaf_paths()]
        whole = inner if len(tree.files or ()) == 1 else tree.leaf_paths()
        for paths in (whole, inner):
            found = [name for name in map(path_text, paths) if name.startswith(start)]
            if found:
                return list(dict.fromkeys(found))
        return []

    def _tree(self, rev: str) -> Tree | None:
        if self._session is None:
            return None
        session = self._session
        return open_reading(session.reader(), session.resolver.resolve(rev), session.progress).tree

    def remotes(self) -> list[Candidate]:
        """Return the names of remotes."""
        return [Candidate(name, "remote") for name in self._config.names("remote")]

    def settings(self) -> list[Candidate]:
        """Return the settings that were made, and those that have a default."""
        return [Candidate(key) for key in sorted({"user.name", *DEFAULTS, *self._config.items()})]

    def _steps(self) -> list[Candidate]:
        steps: dict[int, str] = {}
        for revision in self._line():
            if revision.commit.step is not None:
                steps.setdefault(revision.commit.step, revision.commit.message)
        return [Candidate(f"step:{step}", about) for step, about in steps.items()]

    def metrics(self) -> list[str]:
        """Return the names of metrics that commits have."""
        noted = set() if self._session is None else set(self._session.refs.listed(NOTES))
        names: dict[str, None] = {}
        for revision in self._line():
            names |= dict.fromkeys(name for name, _ in revision.commit.metrics)
            if self._session is not None and revision.id.hex() in noted:
                names |= dict.fromkeys(self._session.later(revision.id))
        return sorted(names)

    def _best(self, start: str) -> list[Candidate]:
        told = re.match("best:(?:(?:min|max):)?", start)
        before = told[0] if told else "best:"
        goals = ("min", "max") if before == "best:" else ()
        named = [Candidate(f"{before}{name}", "metric") for name in self.metrics()]
        return [*named, *(Candidate(f"best:{goal}:", whole=False) for goal in goals)]

    def _line(self) -> Iterator[Revision]:
        """Yield the newest commits that HEAD descends from, as far as they can be read."""
        head = None if self._session is None else self._session.head()
        if self._session is not None and head is not None:
            with suppress(MvcsError):
                yield from islice(self._session.graph.walk([head]), LOOKED_AT)

    def _known(self) -> Iterator[Revision]:
        """Yield the newest commits that HEAD or a branch descends from, as far as they can be read."""
        if self._session is None:
            return
        graph, head = self._session.graph, self._session.head()
        tips = [] if head is None else [head]
        for record in self._session.refs.survey(HEADS).whole.values():
            with suppress(MvcsError):
                tips.append(graph.load(record.target or ObjectId(b"")))
        with suppress(MvcsError):
            yield from islice(graph.walk(tips), LOOKED_AT)


def grouped_by_part(names: Iterable[str], start: str, mark: str) -> list[Candidate]:
    """Return names that begin so; what they have in common up to the next `mark` stands for all of them."""
    found: dict[str, Candidate] = {}
    for name in names:
        if name.startswith(start):
            part, more, _ = name[len(start) :].partition(mark)
            text = start + part + more
            found[text] = Candidate(text, whole=not more)
    return list(found.values())
