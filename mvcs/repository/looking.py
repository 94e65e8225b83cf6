"""What `mvcs show` and `mvcs cat-file` tell: everything of one commit, and single objects.

To *look* at stored bytes means something else, to compare them with checksums: `store.verification` does.
"""

import math
from collections import defaultdict
from typing import Any

from mvcs.checkpoint.roles import Role, roles
from mvcs.errors import NotFoundError, UsageError
from mvcs.history.graph import Revision
from mvcs.objects import cbor
from mvcs.objects.ids import Kind, ObjectId, is_prefix
from mvcs.objects.structure import Path, path_text
from mvcs.objects.tensors import QuantizedTensor
from mvcs.objects.tree import Leaf
from mvcs.repository import reports
from mvcs.repository.reports import CatFile, ClassInfo, CommitDetails, CommitInfo, TensorInfo
from mvcs.repository.restoring import Reading, primitives
from mvcs.store.chains import Located, Place
from mvcs.store.objects import ObjectStore

SHOWN_VALUES = 200


def details(reading: Reading, info: CommitInfo) -> CommitDetails:
    """Return everything about a commit that its tree and footers tell."""
    commit, tree = reading.revision.commit, reading.tree
    rows = zip(tree.leaf_paths(), tree.leaves, roles(tree), strict=True)
    tensors = [_tensor(reading, path, leaf, role) for path, leaf, role in rows]
    values = {path: _shown(value) for path, value in primitives(tree)}
    return CommitDetails(
        commit=info,
        quantizer=dict(commit.quantizer) if commit.quantizer is not None else None,
        tensors=tensors,
        classes=_classes(reading, tensors, info),
        files=None if tree.files is None else [entry.path for entry in tree.files],
        values=dict(list(values.items())[:SHOWN_VALUES]),
        provenance=dict(commit.provenance),
    )


def _shown(value: Any) -> Any:  # noqa: ANN401 - any primitive
    return value[:100] + "…" if isinstance(value, str) and len(value) > 100 else value


def _tensor(reading: Reading, path: Path, leaf: Leaf, role: Role) -> TensorInfo:
    chunks = located_chunks(reading.store, leaf)
    encodings = sorted({link.placed.entry.encoding.name.lower() for link in chunks})
    depth = max(
        (reading.store.catalog.chain(link.placed.ids[link.member]).depth for link in chunks), default=0
    )
    return TensorInfo(
        path=path_text(path),
        dtype=leaf.dtype.name,
        shape=list(leaf.shape),
        role=role.value,
        value_id=leaf.value.hex(),
        exact_id=leaf.exact.hex() if leaf.exact else None,
        encoding="+".join(encodings),
        raw_bytes=leaf.raw_bytes,
        stored_bytes=sum(stored_share(link) for link in chunks),
        depth=depth,
    )


def located_chunks(store: ObjectStore, leaf: Leaf) -> list[Located]:
    """Return where the chunks of a leaf's value lie: codes, offsets and exceptions, or exact values."""
    tensor = store.value_tensor(leaf)
    if isinstance(tensor, QuantizedTensor):
        return [store.catalog.locate(chunk) for chunk in tensor.chunk_ids()]
    return [store.catalog.locate(chunk) for chunk in tensor.chunks]


def value_of(leaf: Leaf) -> tuple[object, ...]:
    """Return what leaves with the same value have in common, so that it is looked at once for all of them."""
    return leaf.dtype, leaf.shape, leaf.value, leaf.exact is None


def stored_share(located: Located) -> int:
    """Return the bytes of an object in its pack; a member of a bundle has its share of the bundle."""
    entry = located.placed.entry
    share = entry.members[located.member].length / max(entry.raw_bytes, 1)
    return math.ceil(located.placed.length * share) if len(entry.members) > 1 else located.placed.length


def _classes(reading: Reading, tensors: list[TensorInfo], info: CommitInfo) -> list[ClassInfo]:
    """Sum sizes by leaf class; only what this commit itself wrote counts as stored."""
    raw: dict[str, int] = defaultdict(int)
    stored: dict[str, int] = defaultdict(int)
    footer = reading.store.catalog.attach(reading.revision.written.pack)
    own = {reading.revision.written.pack, *footer.own}
    counted: set[tuple[Place, int]] = set()
    for leaf, tensor in zip(reading.tree.leaves, tensors, strict=True):
        raw[tensor.role] += tensor.raw_bytes
        links = {(link.place, link.member): link for link in located_chunks(reading.store, leaf)}
        new = [link for place, link in links.items() if link.pack in own and place not in counted]
        stored[tensor.role] += sum(map(stored_share, new))
        counted |= links.keys()
    exact = _exact_shares(reading, tensors) if info.exact_layer == reports.KEPT else {}
    names = [role.value for role in Role if raw[role.value]]
    rows = [ClassInfo(name, raw[name], stored[name], exact.get(name, 0)) for name in names]
    blobs = sum(length for _, length in reading.tree.blobs())
    if blobs:
        rows.append(ClassInfo("blobs", blobs, 0, 0))
    rest = info.stored_bytes - sum(row.stored_bytes for row in rows)
    overhead = info.exact_bytes - sum(exact.values()) if exact else 0
    return [*rows, ClassInfo("metadata", 0, max(rest, 0), max(overhead, 0))]


def _exact_shares(reading: Reading, tensors: list[TensorInfo]) -> dict[str, int]:
    """Sum what the exact layer takes by leaf class."""
    store, shares = reading.store, defaultdict[str, int](int)
    store.catalog.attach_all(reading.revision.written.exact_packs, exact=True)
    for leaf, tensor in zip(reading.tree.leaves, tensors, strict=True):
        if leaf.exact is not None:
            chunks = store.exact_tensor(leaf).chunks
            shares[tensor.role] += sum(stored_share(store.catalog.locate(one, exact=True)) for one in chunks)
    return shares


def cat(text: str, revision: Revision | None, store: ObjectStore) -> CatFile:
    """Return the object that a revision or an id prefix names.

    Raises:
        NotFoundError: no loaded pack holds an object of that id.
        UsageError: the prefix fits several.
    """
    if revision is not None:
        return _decoded(Kind.COMMIT, revision.id, revision.written.content)
    if not is_prefix(text):
        raise NotFoundError(
            f"no revision or object named '{text}'", hint="ids are hexadecimal; 'mvcs show' lists some"
        )
    store.catalog.attach_everything()
    found = store.catalog.with_prefix(text)
    if len(found) > 1:
        raise UsageError(f"'{text}' abbreviates {len(found)} objects", hint="type more digits")
    if not found:
        raise NotFoundError(f"no object's id starts with '{text}'")
    identifier, located = next(iter(found.items()))
    kind = located.placed.entry.members[located.member].kind
    return _decoded(kind, identifier, store.read(kind, identifier))


def _decoded(kind: Kind, identifier: ObjectId, content: bytes) -> CatFile:
    value = None if kind is Kind.CHUNK else reports.plain(cbor.loads(content))
    return CatFile(kind.name.lower(), identifier.hex(), len(content), value, content)
