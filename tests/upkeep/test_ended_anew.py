"""Commits that were ended anew, to a collector that remembers how they ended before."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from mvcs import Repository
from mvcs.refs import HEADS, RefChange
from mvcs.store import MOVED_BASES, VALUE_FOLDER, Backend, pack_name, pack_path, read_footer, upgrade
from mvcs.store.packs.pack import PackWriter
from mvcs.upkeep.collecting.known_history import KnownHistory
from mvcs.upkeep.collecting.reachable_packs import survey
from tests.repository.states import state


def ended_anew(backend: Backend, pack: str) -> str:
    """End a commit by a pack of its own that tells of no other commit, as some footers have to."""
    footer, file = read_footer(backend, pack), backend.stage()
    written = replace(footer.commits[0], pack="")
    name, _ = PackWriter(file).finish((written,), footer.reach, (*footer.own, pack), ended_before=True)
    file.publish(pack_path(name))
    return name


def test_what_is_remembered_of_a_commit_takes_no_place_of_the_pack_that_a_branch_names(
    tmp_path: Path,
) -> None:
    """Nothing is remembered of a pack that does not tell of all parents: the store is asked."""
    with Repository.init(tmp_path) as repo:
        for number in range(2):
            repo.commit(state(number, 12), step=number)
        backend, refs = repo._session.place.backend, repo._session.refs
        upgrade(backend, MOVED_BASES, 0, "Ada")
        before = refs.newest(HEADS, "main")
        pack = ended_anew(backend, before.pack)
        refs.update(HEADS, "main", before, RefChange(before.target, pack, "Ada", "compact"))
        packs = {pack_name(path) or "" for path in backend.list(VALUE_FOLDER)}
        known = KnownHistory()
        with ThreadPoolExecutor(1) as pool:
            known.learn(backend, pool, packs)
        assert packs - known.lines.keys() == {pack}
        assert survey(backend, packs, known=known).left == set()
        assert repo.fsck().ok
