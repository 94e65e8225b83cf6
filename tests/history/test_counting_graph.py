"""Which of several packs counts that end one commit."""

from pathlib import Path

import pytest

from mvcs import Repository
from mvcs.history import CountingGraph, Revision
from mvcs.refs import HEADS, RefChange
from mvcs.store import MOVED_BASES, VALUE_FOLDER, pack_name, read_footer, upgrade
from mvcs.upkeep.collecting.reachable_packs import survey
from tests.repository.states import state
from tests.upkeep.test_ended_anew import ended_anew


@pytest.mark.parametrize("met", range(3))
def test_a_parent_of_which_no_pack_is_named_ends_alike_for_all_who_look(tmp_path: Path, met: int) -> None:
    """Whatever of it was met before: a check and a collector choose the same pack, the first by name."""
    with Repository.init(tmp_path) as repo:
        for number in range(2):
            repo.commit(state(number, 12), step=number)
        session = repo._session
        backend, refs = session.place.backend, session.refs
        upgrade(backend, MOVED_BASES, 0, "Ada")
        tip = refs.newest(HEADS, "main")
        child, parent = (Revision(one) for one in read_footer(backend, tip.pack).commits)
        one = ended_anew(backend, parent.written.pack)
        endings = sorted((parent.written.pack, one, ended_anew(backend, one)))
        pack = ended_anew(backend, tip.pack)
        refs.update(HEADS, "main", tip, RefChange(child.id, pack, "Ada", "compact"))
        graph = CountingGraph(session.store.apart())
        graph.load(parent.id, endings[met])
        counts = graph.get(parent.id, graph.load(child.id, pack)).written.pack
        assert counts == endings[0]
        packs = {pack_name(path) or "" for path in backend.list(VALUE_FOLDER)}
        assert counts not in survey(backend, packs).left
        report = repo.fsck()
        assert report.ok
        named = " ".join(report.notes)
        assert counts[:12] not in named
