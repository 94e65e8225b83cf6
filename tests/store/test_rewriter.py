"""What ends a commit anew, beside what was stored of it at first."""

from dataclasses import replace
from pathlib import Path

import pytest

from mvcs import Repository
from mvcs.memory import NOTHING
from mvcs.refs import HEADS
from mvcs.store import ObjectStore, RestoreLimits, read_footer
from mvcs.store.backend.local import LocalBackend
from mvcs.store.packs.footer import Footer
from mvcs.store.writing.rewriter import Rewriter
from tests.repository.states import state


@pytest.fixture
def tip(tmp_path: Path) -> tuple[LocalBackend, Footer]:
    """A store with two commits, and the footer of the pack that ends the second."""
    with Repository.init(tmp_path) as repo:
        for number in range(2):
            repo.commit(state(number, 24), step=number)
        backend, newest = repo._session.place.backend, repo._session.refs.newest(HEADS, "main")
    assert isinstance(backend, LocalBackend)
    return backend, read_footer(backend, newest.pack)


def ended_anew(tip: tuple[LocalBackend, Footer], stored: int) -> tuple[Footer, int]:
    """Store what the second commit holds once more, as if so many bytes of it were stored at first."""
    backend, footer = tip
    (written, *copies), source = footer.commits, ObjectStore(backend, NOTHING)
    for name in (written.pack, *footer.needed):
        source.catalog.attach(name)
    rewriter = Rewriter(source, source.apart(), RestoreLimits())
    for placed in footer.entries[:-1]:
        link = source.catalog.locate(placed.ids[0])
        rewriter.put(link, None)
    name = rewriter.end(replace(written, stored_bytes=stored), tuple(copies), (written.id,), ())
    return read_footer(backend, name), len(rewriter.packs)


def test_a_pack_that_gets_longer_than_all_that_was_stored_at_first_holds_the_commit_alone(
    tip: tuple[LocalBackend, Footer],
) -> None:
    """So that its stored bytes stay what they were, and the copy of the parent as well."""
    whole, packs = ended_anew(tip, 1 << 40)
    length = whole.tail.pack_length if whole.tail else 0
    assert packs == 1
    for less in range(-40, 80, 8):
        footer, packs = ended_anew(tip, length - less)
        assert packs == 2 or less < 0
        assert footer.commits[0].stored_bytes == length - less
        assert footer.commits[1:] == tip[1].commits[1:]
