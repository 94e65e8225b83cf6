"""Points at which something happens to a verb: what is promised then, and whether it was kept."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from mvcs.errors import MvcsError
from mvcs.refs import HEADS, RefStore
from tests.repository.states import content, state
from tests.soak.faults.site import FAR, OWN, Site
from tests.soak.faults.struck import Strike
from tests.soak.faults.work import EXPECTED, ROWS, VERBS, Published, made, restored
from tests.store.interleaved import Died

MOST_WASTE = 1.05


@dataclass(frozen=True, order=True)
class Point:
    """Something that happens: to which verb, at which of its operations, and what."""

    verb: str
    at: int
    kind: str
    operation: str = field(default="", compare=False)
    writes: bool = field(default=False, compare=False)


@dataclass
class Grounds:
    """The sites at which verbs begin, each made once.

    Attributes:
        folder: for all files.
        sites: by verb.
        published: what is promised of each.
        whole: digests of stores that were found whole: equal bytes need no second look.
    """

    folder: Path
    sites: dict[str, Site] = field(default_factory=dict)
    published: dict[str, Published] = field(default_factory=dict)
    whole: set[tuple[str, str, bytes]] = field(default_factory=set)
    sizes: dict[tuple[str, int, bool], tuple[int, int]] = field(default_factory=dict)

    def size(self, verb: str, times: int, *, other: bool) -> tuple[int, int]:
        """Return what both stores hold in the end when nothing happens, and a verb is done so many times.

        Args:
            verb: which.
            times: how often.
            other: whether another writer commits as well.
        """
        key = verb, times, other
        if key not in self.sizes:
            site = self.site(verb).copy(self.folder / "clean")
            if other:
                other_commits(site)
            for _ in range(times):
                with site.opened() as repo:
                    VERBS[verb].work(repo)
            site.settle()
            shutil.rmtree(site.folder)
            self.sizes[key] = site.stored(OWN), site.stored(FAR)
        return self.sizes[key]

    def site(self, verb: str) -> Site:
        if verb not in self.sites:
            if "" not in self.sites:
                self.sites[""] = made(self.folder / "common")
            site = self.sites[""].copy(self.folder / f"of-{len(self.sites)}")
            VERBS[verb].prepare(site)
            self.sites[verb] = site
            self.published[verb] = Published.of(site, whole=not VERBS[verb].mends)
        return self.sites[verb]

    def points(self, verb: str) -> Iterator[Point]:
        """Yield every point of a verb, as it runs when nothing happens."""
        site = self.site(verb).copy(self.folder / "listed")
        strike = Strike()
        with site.opened(strike) as repo:
            VERBS[verb].work(repo)
        shutil.rmtree(site.folder)
        for at, operation in enumerate(strike.asked):
            for kind in operation.kinds:
                yield Point(verb, at, kind, str(operation), operation.writes)

    def try_point(self, point: Point) -> bool:
        """Let it happen, and see that every promise is kept; tell whether the verb got so far."""
        site = self.site(point.verb).copy(self.folder / "struck")
        try:
            return Trial(self, point, site).run()
        except Exception as error:
            raise AssertionError(f"{point}: {type(error).__name__}: {error}") from error
        finally:
            shutil.rmtree(site.folder)


@dataclass
class Trial:
    """One point, at a site of its own."""

    grounds: Grounds
    point: Point
    site: Site
    records: int = 0

    def run(self) -> bool:
        verb, self.records = VERBS[self.point.verb], self._records()
        files: dict[Path, bytes] = {}
        strike = Strike(self.point.at, self.point.kind, lambda: other_commits(self.site))
        strike.at_death = lambda: files.update(self.site.files())
        acknowledged = None
        try:
            with self.site.opened(strike) as repo:
                acknowledged = verb.work(repo)
            assert "dies" not in self.point.kind or not strike.met
        except (MvcsError, Died):
            assert strike.met
        self.site.left_by_the_dead(files or self.site.files())
        strike.deliver_late()
        if not strike.met:
            return False
        self._check(acknowledged, whole=not verb.mends, torn=strike.torn)
        with self.site.opened() as repo:
            again = verb.work(repo)
        self.site.settle()
        self._check(again, whole=True)
        self._check_sizes()
        return True

    def _check_sizes(self) -> None:
        verb, other = self.point.verb, self.point.kind == "delayed"
        times = [min(2, self._records() - self.records)] if VERBS[verb].grows else [1, 2]
        found = self.site.stored(OWN), self.site.stored(FAR)
        clean = (self.grounds.size(verb, each, other=other) for each in times)
        fine = any(all(map(is_small, found, sizes)) for sizes in clean)
        assert fine, f"the stores hold {found} bytes"

    def _records(self) -> int:
        return RefStore(self.site.stores[OWN]).newest_number(HEADS, "main") or 0

    def _check(self, acknowledged: str | None, *, whole: bool, torn: str = "") -> None:
        for url in (OWN, FAR) if whole else (FAR,):
            found = self.point.verb, url, self.site.digest(url)
            if torn or found not in self.grounds.whole:
                self._check_store(url, torn)
                if not torn:
                    self.grounds.whole.add(found)
        if acknowledged is not None:
            with self.site.opened() as repo:
                head = repo.head()
                assert head, "no commit is there"
                assert head.id == acknowledged, "the branch stands elsewhere"
                if VERBS[self.point.verb].exact:
                    assert content(repo, acknowledged) == EXPECTED

    def _check_store(self, url: str, torn: str) -> None:
        """See that a store is whole, but for a file that no commit needs yet, until it is collected."""
        published = self.grounds.published[self.point.verb]
        with self.site.bare(url) as repo:
            problems = [one for one in repo.fsck().problems if one.subject != torn]
            assert not problems, problems
            for commit, expected in published.contents[url].items():
                found = restored(repo, commit)
                fine = found == expected or (found is None and commit in published.dropped)
                assert fine, f"{commit} does not restore what it did"


def is_small(stored: int, clean: int) -> bool:
    """Tell whether a store holds nothing to speak of beyond what it holds when nothing happens."""
    return stored <= MOST_WASTE * clean


def other_commits(site: Site) -> None:
    """Let another writer commit, to either store."""
    for url, branch in ((OWN, "theirs"), (FAR, "abroad")):
        with site.bare(url) as repo:
            repo.commit(state(20, ROWS), branch=branch)
