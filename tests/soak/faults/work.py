"""The verbs to which something happens, and the history on which they work."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mvcs import Repository
from mvcs.errors import NotFoundError, StorageError
from mvcs.store import pack_path
from tests.repository.states import content, leaves, own_packs, state
from tests.soak.faults.site import AGE, FAR, OWN, Site

ROWS = 12
NEW = 9  # the number of the state that verbs commit
Content = dict[str, tuple[str, tuple[int, ...], bytes]]
Work = Callable[[Repository], Any]


@dataclass(frozen=True)
class Verb:
    """Something that is done.

    Attributes:
        work: does it; returns the id of the commit that it acknowledges, if any.
        prepare: brings a site to where it is done, from the common history.
        mends: whether stores are damaged before.
        exact: whether what it commits restores to the state itself.
        grows: whether the history grows each time that it is done.
    """

    work: Work
    prepare: Callable[[Site], None] = lambda _: None
    mends: bool = False
    exact: bool = False
    grows: bool = False


def made(folder: Path) -> Site:
    """Make the common history: two branches, a tag, a note, a remote that is behind, and garbage."""
    site = Site.at(folder)
    with Repository.init(folder, store=OWN, trust=site.trust()) as repo:
        repo.config_set("user.name", "Ada")
        repo.commit(state(0, ROWS), step=0)
        repo.create_tag("first", message="the first")
        repo.commit(state(1, ROWS), step=1, step_size=0.5)
        repo.add_remote("origin", FAR)
        repo.push(tags=True, exact=True)
        repo.commit(state(2, ROWS), step=2, step_size=0.5)
        repo.note("HEAD", {"loss": 0.5})
        repo.create_branch("side", "HEAD~1")
        repo.commit(state(3, ROWS), step=3)
    leave_garbage(site, OWN)
    site.grow_old(AGE)
    return site


def leave_garbage(site: Site, url: str) -> None:
    """Let somebody who is not heard of any more have committed to a branch of which no record is left."""
    with site.bare(url) as repo:
        repo.commit(state(5, ROWS), branch="lost")
    for name in site.stores[url].list("refs/heads/lost"):
        site.stores[url].delete(name)


def commit_exact(repo: Repository) -> str:
    return repo.commit(state(NEW, ROWS), step=NEW).id


def commit_bounded(repo: Repository) -> str:
    return repo.commit(state(NEW, ROWS), step=NEW, step_size=0.5).id


def amend(repo: Repository) -> str:
    return repo.amend(message="said again", metrics={"loss": 0.25}).id


def compact(repo: Repository) -> None:
    repo.compact(max_depth=0)


def archive(repo: Repository) -> None:
    repo.compact(for_archive=True)


def retain(repo: Repository) -> None:
    repo.apply_retention(force=True)


def tips_stay(site: Site) -> None:
    with site.opened() as repo:
        repo.delete_branch("side", force=True)
        repo.delete_tag("first")
        repo.commit(state(4, ROWS), step=4, step_size=0.5)
        repo.set_retention(last=1, force=True)
    site.grow_old(AGE)


def collect(repo: Repository) -> None:
    repo.gc(grace_days=1, wait_days=1, execute=True)


def collect_far(repo: Repository) -> None:
    repo.gc(grace_days=1, wait_days=1, execute=True, remote="origin")


def condemned(site: Site) -> None:
    with site.opened() as repo:
        repo.gc(grace_days=1, wait_days=1, execute=True)
    site.grow_old(AGE)


def garbage_there(site: Site) -> None:
    leave_garbage(site, FAR)
    site.grow_old(AGE)


def repair(repo: Repository) -> None:
    report = repo.repair()
    if not report.ok:
        raise StorageError(f"not all is whole: {report.problems}")


def damaged(site: Site) -> None:
    """Lose a pack, flip a bit of one, cut another."""
    push_all(site)
    files = site.stores[OWN].files
    site.grow_old(AGE)
    names = [name for name in sorted(files) if name.endswith(".pack") and name in site.stores[FAR].files]
    first, second, third = names[:3]
    del files[first]
    data, written = files[second]
    files[second] = data[:100] + bytes([data[100] ^ 4]) + data[101:], written
    files[third] = files[third][0][:-5], files[third][1]
    with site.opened() as repo:
        assert not repo.fsck().ok


def give_up(repo: Repository) -> None:
    report = repo.repair(give_up=True)
    if not report.ok:
        raise StorageError(f"not all is whole: {report.problems}")


def lost(site: Site) -> None:
    """Lose a pack of a commit that no other store has, behind one that is whole."""
    with site.opened() as repo:
        [*_, name] = own_packs(repo, "main~1")
        del site.stores[OWN].files[pack_path(name)]
        repo.commit(state(4, ROWS), step=4)
    site.grow_old(AGE)
    with site.opened() as repo:
        assert not repo.fsck().ok


def push_all(site: Site) -> None:
    with site.opened() as repo:
        push(repo)


def push(repo: Repository) -> None:
    repo.push(tags=True, all_branches=True, exact=True)


def fetch(repo: Repository) -> None:
    repo.fetch()


def pull(repo: Repository) -> None:
    repo.pull()


def behind(site: Site) -> None:
    """Let the clone be one that has what the remote had first."""
    old = site.stores[FAR].copy()
    push_all(site)
    site.stores[OWN] = old
    with site.opened() as repo:
        if "side" in {each.name for each in repo.branches()}:
            raise AssertionError
    site.grow_old(AGE)


VERBS = {
    "commit, exact": Verb(commit_exact, exact=True, grows=True),
    "commit, bounded": Verb(commit_bounded, grows=True),
    "amend": Verb(amend, grows=True),
    "compact": Verb(compact),
    "compact --for-archive": Verb(archive),
    "retention apply": Verb(retain, tips_stay),
    "gc, condemning": Verb(collect),
    "gc, deleting": Verb(collect, condemned),
    "gc --remote": Verb(collect_far, garbage_there),
    "repair": Verb(repair, damaged, mends=True),
    "repair --give-up": Verb(give_up, lost, mends=True),
    "push": Verb(push),
    "fetch": Verb(fetch, behind),
    "pull": Verb(pull, behind),
}


@dataclass
class Published:
    """What the commits of stores restore before a verb begins.

    Attributes:
        contents: by the address of the store, then by id.
        dropped: ids of the commits whose data the verb may drop.
    """

    contents: dict[str, dict[str, Content]] = field(default_factory=dict)
    dropped: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, site: Site, *, whole: bool = True) -> "Published":
        found = cls()
        for url in (OWN, FAR) if whole else (FAR,):
            with site.bare(url) as repo:
                found.contents[url] = {one.id: content(repo, one.id) for one in repo.log(all_branches=True)}
        if not whole:
            found.contents[OWN] = dict(found.contents[FAR])
        with site.opened() as repo:
            if whole and repo.retention().rules:
                found.dropped = {one.commit for one in repo.apply_retention(dry_run=True, force=True).dropped}
        return found


def restored(repo: Repository, commit: str) -> Content | None:
    """Return what a commit restores; None where its data were dropped, and it says so."""
    try:
        return content(repo, commit)
    except NotFoundError:
        if repo.resolve(commit).data_dropped:
            return None
        raise


EXPECTED = leaves(state(NEW, ROWS))
