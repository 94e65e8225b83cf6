"""What `mvcs show` and `mvcs cat-file` tell: everything of one commit, one file of it, and single objects.

To *look* at stored bytes means something else, to compare them with checksums: `store.verification` does.
"""

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from mvcs.checkpoint import Role, roles_of
from mvcs.errors import CorruptionError, NotFoundError, UsageError
from mvcs.history import Revision
from mvcs.objects import (
    Absent,
    Constant,
    Derived,
    ExactTensor,
    FileFormat,
    Kind,
    Leaf,
    ObjectId,
    QuantizedTensor,
    Tree,
    blob_reference,
    cbor,
    is_prefix,
    named_fields,
    path_text,
    tensor_reference,
)
from mvcs.reports import (
    DAMAGED,
    KEPT,
    PART,
    CatFile,
    ClassInfo,
    CommitDetails,
    CommitInfo,
    Report,
    TensorInfo,
    as_json,
)
from mvcs.restore.explain_size import shortfall
from mvcs.restore.open_commit import Reading, primitives
from mvcs.store import ChunkPlace, Located, ObjectStore

SHOWN_VALUES = 200
FOLDER = "folder"


def details(reading: Reading, info: CommitInfo) -> CommitDetails:
    """Return everything about a commit that its tree and footers tell."""
    commit, tree = reading.revision.commit, reading.tree
    tensors = _tensors(reading, dropped=info.data_dropped)
    try:
        exact = _exact_shares(reading, tensors) if info.exact_layer == KEPT else {}
    except CorruptionError:
        info, exact = replace(info, exact_layer=DAMAGED), {}
    found = CommitDetails(
        commit=info,
        quantizer=dict(commit.quantizer) if commit.quantizer is not None else None,
        tensors=tensors,
        classes=_classes(reading, tensors, info, exact),
        files=None if tree.files is None else [entry.path for entry in tree.files],
        values=shown_values(tree),
        provenance=dict(commit.provenance),
    )
    return replace(found, shortfall=shortfall(found, commit))


def shown_values(tree: Tree) -> dict[str, Any]:
    """Return the first numbers and texts beside the tensors, by path, as far as they are shown."""
    return {path: _shown(value) for path, value in islice(primitives(tree), SHOWN_VALUES)}


def _shown(value: Any) -> Any:  # noqa: ANN401 - any primitive
    return value[:100] + "…" if isinstance(value, str) and len(value) > 100 else value


def _tensors(reading: Reading, *, dropped: bool) -> list[TensorInfo]:
    tree, origins = reading.tree, _Origins.of(reading)
    places: dict[int, list[str]] = defaultdict(list)
    for path, node in tree.nodes():
        reference = tensor_reference(node)
        if reference is not None:
            places[reference[0]].append(path_text(path))
    rows = enumerate(zip(tree.leaves, roles_of(tree), strict=True))
    return [
        _told_by_tree(places[index], leaf, role)
        if dropped and not has_chunks(reading.store, leaf)
        else _tensor(reading, places[index], leaf, role, origins)
        for index, (leaf, role) in rows
    ]


def has_chunks(store: ObjectStore, leaf: Leaf) -> bool:
    """Tell whether the packs that a commit needs have every chunk of a leaf."""
    return all(store.catalog.find(name) is not None for name in leaf.tensor.chunk_ids())


def _told_by_tree(paths: list[str], leaf: Leaf, role: Role) -> TensorInfo:
    """Return what a tree alone tells of a tensor."""
    return TensorInfo(
        path=paths[0],
        dtype=leaf.dtype.name,
        shape=list(leaf.shape),
        role=role.value,
        value_id=leaf.value.hex(),
        exact_id=leaf.original.id.hex() if leaf.original else None,
        encoding="",
        raw_bytes=leaf.raw_bytes,
        stored_bytes=0,
        depth=0,
        new_bytes=0,
        where="dropped",
        twin=None,
        aliases=paths[1:],
    )


@dataclass
class _Origins:
    """Tells who wrote the bytes of a tensor, of a commit's tensors in order.

    Attributes:
        own: the packs that the commit wrote.
        met: the first tensor that has an object, by its place.
    """

    own: set[str]
    met: dict[tuple[ChunkPlace, int], str] = field(default_factory=dict)

    @classmethod
    def of(cls, reading: Reading) -> "_Origins":
        return cls({*reading.store.manifests.placement(reading.revision.id).own})

    def of_tensor(self, path: str, chunks: list[Located]) -> tuple[int, str, str | None]:
        """Return the bytes that are new with a tensor, where they all are, and which tensor shares them."""
        links = {(link.place, link.member): link for link in chunks}
        fresh = [link for place, link in links.items() if place not in self.met]
        new = [link for link in fresh if link.pack in self.own]
        twin = next((self.met[place] for place in links if place in self.met), None)
        self.met |= {place: path for place in links if place not in self.met}
        where = "new" if new else "unchanged" if fresh else "shared"
        return sum(map(stored_share, new)), where, twin if where == "shared" else None


def _tensor(reading: Reading, paths: list[str], leaf: Leaf, role: Role, origins: _Origins) -> TensorInfo:
    chunks = located_chunks(reading.store, leaf)
    encodings = sorted({link.placed.entry.encoding.name.lower() for link in chunks})
    depth = max(map(reading.store.catalog.depth_of, chunks), default=0)
    rule = "" if chunks else _rule(leaf.tensor)
    new_bytes, where, twin = (0, rule, None) if rule else origins.of_tensor(paths[0], chunks)
    return replace(
        _told_by_tree(paths, leaf, role),
        encoding="+".join(encodings),
        stored_bytes=sum(stored_share(link) for link in chunks),
        depth=depth,
        new_bytes=new_bytes,
        where=where,
        twin=twin,
    )


def _rule(tensor: ExactTensor | QuantizedTensor) -> str:
    """Return what a tensor is of which no chunk is stored."""
    form = tensor.parameters if isinstance(tensor, QuantizedTensor) else None
    return {Absent: "left out", Constant: "constant", Derived: "derived"}.get(type(form), "empty")


def located_chunks(store: ObjectStore, leaf: Leaf) -> list[Located]:
    """Return where the chunks of a leaf's value lie: codes, offsets and exceptions, or exact values."""
    tensor = leaf.tensor
    if isinstance(tensor, QuantizedTensor):
        return [store.catalog.locate(chunk) for chunk in tensor.chunk_ids()]
    return [store.catalog.locate(chunk) for chunk in tensor.chunks]


def stored_share(located: Located) -> int:
    """Return the bytes of an object in its pack; a member of a bundle has its share of the bundle."""
    entry = located.placed.entry
    share = entry.members[located.member].length / max(entry.raw_bytes, 1)
    return math.ceil(located.placed.length * share) if len(entry.members) > 1 else located.placed.length


def _classes(
    reading: Reading, tensors: list[TensorInfo], info: CommitInfo, exact: Mapping[str, int]
) -> list[ClassInfo]:
    """Sum sizes by leaf class; only what this commit itself wrote counts as stored."""
    parts: dict[str, list[TensorInfo]] = defaultdict(list)
    for tensor in tensors:
        parts[tensor.role].append(tensor)
    rows = [
        ClassInfo(
            role.value,
            raw,
            sum(tensor.new_bytes for tensor in parts[role.value]),
            exact.get(role.value, 0),
            max(tensor.depth for tensor in parts[role.value]),
        )
        for role in Role
        if (raw := sum(tensor.raw_bytes for tensor in parts[role.value]))
    ]
    blobs = sum(length for _, length in reading.tree.blobs())
    if blobs:
        rows.append(ClassInfo("blobs", blobs, 0, 0))
    catalog, stored = reading.store.catalog, info.stored_bytes
    if any(tensor.where == "dropped" for tensor in tensors):  # what was stored of them is no metadata
        own = reading.store.manifests.placement(reading.revision.id).own
        footers = (catalog.known(name, exact=False) for name in own)
        stored = sum(footer.tail.pack_length for footer in footers if footer and footer.tail)
    rest = stored - sum(row.stored_bytes for row in rows)
    overhead = info.exact_bytes - sum(exact.values()) if exact else 0
    depth = catalog.depth_of(catalog.locate(reading.revision.commit.tree))
    return [*rows, ClassInfo("metadata", 0, max(rest, 0), max(overhead, 0), depth)]


def _exact_shares(reading: Reading, tensors: list[TensorInfo]) -> dict[str, int]:
    """Sum what the exact layer takes by leaf class.

    Raises:
        CorruptionError: what describes it is damaged.
    """
    store, shares = reading.store, defaultdict[str, int](int)
    store.catalog.attach_all(reading.revision.written.exact_packs, exact=True)
    for leaf, tensor in zip(reading.tree.leaves, tensors, strict=True):
        if leaf.original is not None:
            chunks = leaf.original.chunks
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
        raise NotFoundError(
            f"no object's id starts with '{text}'",
            hint="a tensor is no object, and exact values are one only where an exact layer has them",
        )
    identifier, located = next(iter(found.items()))
    kind = located.placed.entry.members[located.member].kind
    return _decoded(kind, identifier, bytes(store.read(kind, identifier)))


def _read(kind: Kind, content: bytes) -> cbor.Value:
    if kind is not Kind.COMMIT:
        return cbor.loads(content)
    return [[name, value] for name, value in named_fields(content)]


def _decoded(kind: Kind, identifier: ObjectId, content: bytes) -> CatFile:
    value = None if kind is Kind.CHUNK else as_json(_read(kind, content))
    return CatFile(kind.name.lower(), identifier.hex(), len(content), value, content)


@dataclass(frozen=True)
class FileDetails(Report):
    """One file of a commit, a folder, or a part of a state.

    Attributes:
        commit: whose it is.
        path: where it lies.
        format: "safetensors", "torch", "npz", "binary", "opaque", "folder", or "part" of a state.
        raw_bytes: bytes of its tensors and blobs.
        tensors: of a file of tensors, or of a part.
        values: numbers and texts beside them.
        files: of a folder, by their paths.
        content: of an opaque file, its bytes.
    """

    commit: CommitInfo
    path: str
    format: str
    raw_bytes: int
    tensors: list[TensorInfo]
    values: dict[str, Any]
    files: list[str]
    content: bytes | None = None


def details_of_file(reading: Reading, info: CommitInfo, path: str) -> FileDetails:
    """Return what the reading of a commit tells of one file, of the files in a folder, or of a part.

    Raises:
        NotFoundError: the commit has nothing of that name.
        LimitError: an opaque file is larger than what is allowed, or than this machine's memory.
    """
    if reading.tree.files is None:
        return _part(reading, info, path)
    reading = reading.at(path)
    entries, size = reading.tree.files or (), reading.tree.raw_bytes
    if [entry.path for entry in entries] != [path]:
        return FileDetails(info, path, FOLDER, size, [], {}, [entry.path for entry in entries])
    blob = blob_reference(entries[0].node)
    is_opaque = entries[0].format is FileFormat.OPAQUE
    content = bytes(reading.blob(*blob)) if is_opaque and blob is not None else None
    known = details(reading, info)
    return FileDetails(info, path, entries[0].format.value, size, known.tensors, known.values, [], content)


def _part(reading: Reading, info: CommitInfo, name: str) -> FileDetails:
    part = reading.at(name).tree
    # What tensors are for shows in the whole state alone.
    tensors = [
        found
        for found in details(reading, info).tensors
        if any(f"{path}.".startswith(f"{name}.") for path in (found.path, *found.aliases))
    ]
    values = {f"{name}.{path}" if path else name: value for path, value in shown_values(part).items()}
    return FileDetails(info, name, PART, part.raw_bytes, tensors, values, [])
