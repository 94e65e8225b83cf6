"""Stores that lie: real packs with right hashes and footers that somebody wrote by hand."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from mvcs import Repository
from mvcs.delta.encoding import Encoding
from mvcs.objects.commit import Commit
from mvcs.objects.ids import Kind, ObjectId, object_id
from mvcs.refs.refstore import HEADS, RefChange, RefStore
from mvcs.store.backend import open_backend
from mvcs.store.packs.entry import Entry, Member
from mvcs.store.packs.footer import Footer
from mvcs.store.packs.pack import name_of, scan
from mvcs.store.packs.written_commit import WrittenCommit
from mvcs.store.reading.inspection import inspect_pack
from mvcs.store.reading.pack_files import pack_path
from tests.store.packing import PackBuilder

Forge = Callable[[Footer], Footer]


def tip_pack(far: Path, branch: str = "main") -> str:
    """The name of the pack that ends a branch's commit."""
    with Repository.open(far) as repo:
        return repo._session.resolver.resolve(branch).written.pack


def footer_of(far: Path, name: str) -> Footer:
    return inspect_pack(name, (far / pack_path(name)).read_bytes())


def forge_tip(far: Path, forge: Forge, branch: str = "main") -> str:
    """Write the pack that ends a branch's commit again with another footer, and point the branch at it.

    What its last entry says is made to fit.
    """
    old = tip_pack(far, branch)
    data = (far / pack_path(old)).read_bytes()
    true = footer_of(far, old)
    said = forge(true)
    builder = PackBuilder()
    for (_, entry, payload, _), placed in zip(scan(data), said.entries[:-1], strict=False):
        builder.add(entry, payload, placed.ids)
    commits = tuple(_unplaced(each, old, len(data)) for each in said.commits)
    name = keep(far, builder.finish(commits, said.reach, said.own))
    (far / pack_path(old)).unlink()
    point(far, branch, true.commits[0].id, name)
    return name


def _unplaced(written: WrittenCommit, pack: str, size: int) -> WrittenCommit:
    """As a footer holds the commit of its own pack: without the pack's name and bytes."""
    return (
        replace(written, pack="", stored_bytes=max(0, written.stored_bytes - size))
        if written.pack == pack
        else written
    )


def flip(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def keep(far: Path, data: bytes) -> str:
    name = name_of(data)
    open_backend(str(far)).put(pack_path(name), data)
    return name


def point(far: Path, branch: str, target: ObjectId, pack: str) -> None:
    store = RefStore(open_backend(str(far)))
    store.update(HEADS, branch, store.newest(HEADS, branch), RefChange(target, pack, "eve", "forged"))


def add_commit(far: Path, branch: str, commit: Commit, objects: list[tuple[Kind, bytes]], **said) -> str:
    """Put a commit of one's own on a branch: some objects, and a footer that says what it is told."""
    builder = PackBuilder()
    for entry in said.get("entries", ()):
        builder.add(*entry)
    content = commit.encode()
    for kind, data in [*objects, (Kind.COMMIT, content)]:
        builder.add(Entry((Member(kind, len(data)),), Encoding.RAW), data, (object_id(kind, data),))
    identifier = object_id(Kind.COMMIT, content)
    copies, reach = said.get("copies", ()), said.get("reach", ())
    own = WrittenCommit(identifier, content, "", 0, 0, 0, 0, said.get("exact_packs", ()))
    name = keep(far, builder.finish((own, *copies), reach))
    point(far, branch, identifier, name)
    return name
