"""Stores that lie: real packs with right hashes, and footers and manifests that somebody wrote by hand."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from mvcs import Repository
from mvcs.delta.encoding import Encoding
from mvcs.objects.commit import Commit
from mvcs.objects.ids import Kind, ObjectId, object_id
from mvcs.refs.refstore import HEADS, RefChange, RefStore
from mvcs.store.backend import Backend, open_backend
from mvcs.store.manifests import Manifest, Manifests, Placement, WrittenCommit, manifest_path
from mvcs.store.packs.entry import Entry, Member
from mvcs.store.packs.footer import Footer
from mvcs.store.packs.pack import name_of, scan
from mvcs.store.reading.inspection import inspect_pack
from mvcs.store.reading.pack_files import pack_path
from tests.store.packing import PackBuilder


def tip_manifest(far: Path, branch: str = "main") -> Manifest:
    """The manifest of a branch's commit."""
    with Repository.open(far) as repo:
        return repo._session.store.manifests.first(repo._session.resolver.resolve(branch).id)


def tip_pack(far: Path, branch: str = "main") -> str:
    """The name of the pack that holds a branch's commit."""
    return tip_manifest(far, branch).placement.own[-1]


def footer_of(far: Path, name: str) -> Footer:
    return inspect_pack(name, (far / pack_path(name)).read_bytes())


def forge_tip(far: Path, forge: Callable[[Manifest], Manifest], branch: str = "main") -> None:
    """Write the manifest of a branch's commit again, with something else in it."""
    said = forge(tip_manifest(far, branch))
    open_backend(str(far)).replace(manifest_path(said.written.id, 0), said.encode())


def forge_footer(far: Path, forge: Callable[[Footer], Footer], branch: str = "main") -> None:
    """Write the pack of a branch's commit again with another footer, and have the manifest name it."""
    old = tip_pack(far, branch)
    data, said = (far / pack_path(old)).read_bytes(), forge(footer_of(far, old))
    builder = PackBuilder()
    for (_, entry, payload, _), placed in zip(scan(data), said.entries, strict=True):
        builder.add(entry, payload, placed.ids)
    new = keep(far, builder.finish())
    (far / pack_path(old)).unlink()
    forge_tip(far, lambda told: replace(told, placement=renamed(told.placement, old, new)), branch)


def renamed(placement: Placement, old: str, new: str) -> Placement:
    own, others = (
        tuple(new if one == old else one for one in some) for some in (placement.own, placement.others)
    )
    return replace(placement, own=own, others=others)


def flip(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def keep(far: Path, data: bytes) -> str:
    name = name_of(data)
    open_backend(str(far)).put(pack_path(name), data)
    return name


def point(far: Path, branch: str, target: ObjectId) -> None:
    store = RefStore(open_backend(str(far)))
    store.update(HEADS, branch, store.newest(HEADS, branch), RefChange(target, "eve", "forged"))


def record(
    backend: Backend, content: bytes, packs: tuple[str, ...], others: tuple[str, ...] = (), **said
) -> ObjectId:
    """Write a manifest of a commit, which says what it is told; return the commit's id."""
    identifier = object_id(Kind.COMMIT, content)
    written = WrittenCommit(
        identifier, content, *said.get("sizes", (0, 0, 0, 0)), said.get("exact_packs", ())
    )
    manifest = Manifest(written, Placement(packs, others), said.get("ancestors", ()))
    Manifests(backend).write(manifest)
    return identifier


def add_commit(far: Path, branch: str, commit: Commit, objects: list[tuple[Kind, bytes]], **said) -> str:
    """Put a commit of one's own on a branch: some objects, and a manifest that says what it is told."""
    builder = PackBuilder()
    for entry in said.get("entries", ()):
        builder.add(*entry)
    content = commit.encode()
    for kind, data in [*objects, (Kind.COMMIT, content)]:
        builder.add(Entry((Member(kind, len(data)),), Encoding.RAW), data, (object_id(kind, data),))
    name = keep(far, builder.finish())
    told = {key: value for key, value in said.items() if key not in ("entries", "others")}
    identifier = record(open_backend(str(far)), content, (name,), said.get("others", ()), **told)
    point(far, branch, identifier)
    return name
