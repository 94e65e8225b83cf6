"""What is written: commits with their tensors, refs and notes; each an upsert in the caller's transaction."""

import json
import sqlite3
from collections.abc import Iterable, Sequence
from functools import lru_cache

from mvcs.errors import CorruptionError, NotFoundError
from mvcs.lineage.numbers import Key, Numbers, insertion
from mvcs.lineage.records import CommitRecord, NoteRecord, RefRecord, TensorRecord
from mvcs.objects import ObjectId, Pairs, Value, checksum, to_hex

COMMIT_SOURCE = "commit"

_PUT_REF = (
    f"{insertion('refs', 'kind', 'name', 'target', 'number')} ON CONFLICT (kind, name) DO UPDATE"
    " SET target = excluded.target, number = excluded.number WHERE excluded.number >= refs.number"
)
_PUT_NOTE = f"{insertion('notes', 'id', 'target', 'author', 'time')} ON CONFLICT DO NOTHING"
_PUT_PARENT = insertion("parents", "child", "position", "parent")
_PUT_METRIC = insertion("metrics", "commit_id", "source", "position", "name", "value")
_PUT_CONTENT = (
    insertion("contents", "commit_number", "position", "leaf_number", "tensor_number")
    + " ON CONFLICT (commit_number, position) DO UPDATE"
    " SET leaf_number = excluded.leaf_number, tensor_number = excluded.tensor_number"
)
_COPY_CONTENTS = (
    "INSERT INTO contents SELECT ?, position, leaf_number, tensor_number FROM contents"
    " WHERE commit_number = (SELECT number FROM commits WHERE id = ?)"
)
_LEAVES = (
    "SELECT leaf_number FROM contents WHERE commit_number = (SELECT number FROM commits WHERE id = ?)"
    " ORDER BY position"
)
_PUT_ENCODING = insertion(
    *("encodings", "tensor_number", "position", "chunk", "encoding"),
    *("stored_bytes", "raw_bytes", "depth", "pack_number"),
)
_HELD = (
    "SELECT DISTINCT tensor_number FROM contents"
    " WHERE commit_number = (SELECT number FROM commits WHERE id = ?)"
)
_FORGET = (
    "DELETE FROM commits WHERE id = ?",
    "DELETE FROM notes WHERE target = ?",
    "DELETE FROM metrics WHERE commit_id = ?",
)
_FORGET_UNHELD = (
    "DELETE FROM tensors WHERE number = ?1 AND NOT EXISTS (SELECT 1 FROM contents WHERE tensor_number = ?1)"
)


class Writer:
    """Writes records in one transaction; importing SQLAlchemy for it would take longer than a commit does."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._quantizers = Numbers(connection, "quantizers", ["text"])
        self._packs = Numbers(connection, "packs", ["name"])
        self._leaves = Numbers(connection, "leaves", ["path", "dtype", "shape", "role"])
        self._tensors = Numbers(connection, "tensors", ["fingerprint"], "value", "exact")

    def commit(self, record: CommitRecord) -> None:
        """Write a commit, replacing what was known of it."""
        number = self._commit_row(record)
        identifier = to_hex(record.id)
        self._parents(identifier, record.commit.parents)
        self._metrics(identifier, COMMIT_SOURCE, record.commit.metrics)
        self._contents(number, record)

    def refs(self, records: Iterable[RefRecord]) -> None:
        """Write refs, except those of which a newer record is known."""
        rows = [
            (record.kind, storable(record.name), _optional(record.target), record.number)
            for record in records
        ]
        self._connection.executemany(_PUT_REF, rows)

    def note(self, record: NoteRecord) -> None:
        """Write a note and its metrics."""
        identifier, target = to_hex(record.id), to_hex(record.target)
        self._connection.execute(_PUT_NOTE, (identifier, target, storable(record.author), record.time))
        self._metrics(target, identifier, record.metrics)

    def forget(self, ids: Iterable[ObjectId]) -> None:
        """Remove commits, their notes, and the tensors that no other commit holds."""
        chosen = [(to_hex(identifier),) for identifier in ids]
        held = {row for one in chosen for row in self._connection.execute(_HELD, one)}
        for statement in _FORGET:
            self._connection.executemany(statement, chosen)
        self._connection.executemany(_FORGET_UNHELD, sorted(held))

    def _commit_row(self, record: CommitRecord) -> int:
        row = _commit_values(record)
        if record.commit.quantizer is not None:
            [row["quantizer_number"]], _ = self._quantizers.of([(canonical(record.commit.quantizer),)])
        replaced = ", ".join(f"{column} = excluded.{column}" for column in row)
        statement = f"{insertion('commits', *row)} ON CONFLICT (id) DO UPDATE SET {replaced}"
        self._connection.execute(statement, tuple(row.values()))
        for (number,) in self._connection.execute("SELECT number FROM commits WHERE id = ?", (row["id"],)):
            return int(number)
        raise CorruptionError("the index does not hold the commit that was just written")

    def _parents(self, child: str, parents: Iterable[ObjectId]) -> None:
        self._connection.execute("DELETE FROM parents WHERE child = ?", (child,))
        rows = [(child, position, to_hex(parent)) for position, parent in enumerate(parents)]
        self._connection.executemany(_PUT_PARENT, rows)

    def _metrics(self, commit: str, source: str, metrics: Iterable[tuple[str, float]]) -> None:
        self._connection.execute("DELETE FROM metrics WHERE commit_id = ? AND source = ?", (commit, source))
        rows = [(commit, source, index, storable(name), value) for index, (name, value) in enumerate(metrics)]
        self._connection.executemany(_PUT_METRIC, rows)

    def _contents(self, commit: int, record: CommitRecord) -> None:
        self._connection.execute("DELETE FROM contents WHERE commit_number = ?", (commit,))
        tensors, total = record.tensors, len(record.tensors) + len(record.kept)
        if record.kept:
            copied = self._connection.execute(_COPY_CONTENTS, (commit, to_hex(record.commit.parents[0])))
            if copied.rowcount != total:
                raise NotFoundError("the rows of the commit before are gone")
        if not tensors:
            return
        positions = [position for position in range(total) if position not in record.kept]
        if tensors[0].path is None:
            old = self._connection.execute(_LEAVES, (to_hex(record.commit.parents[0]),)).fetchall()
            if len(old) != total:
                raise NotFoundError("the rows of the commit before are gone")
            leaves = [old[position][0] for position in positions]
        else:
            leaves, _ = self._leaves.of([_leaf(tensor) for tensor in tensors])
        numbers, new = self._tensors.of(_values(tensors))
        self._encodings(
            {number: tensor for number, tensor in zip(numbers, tensors, strict=True) if number in new}
        )
        rows = [
            (commit, position, leaf, tensor)
            for position, leaf, tensor in zip(positions, leaves, numbers, strict=True)
        ]
        self._connection.executemany(_PUT_CONTENT, rows)

    def _encodings(self, tensors: dict[int, TensorRecord]) -> None:
        chunks = [
            (number, position, chunk)
            for number, tensor in tensors.items()
            for position, chunk in enumerate(tensor.chunks)
        ]
        if not chunks:
            return
        packs, _ = self._packs.of([(storable(chunk.pack),) for _, _, chunk in chunks])
        rows = [
            (
                *(number, position, to_hex(chunk.chunk), storable(chunk.encoding)),
                *(chunk.stored_bytes, chunk.raw_bytes, chunk.depth, pack),
            )
            for (number, position, chunk), pack in zip(chunks, packs, strict=True)
        ]
        self._connection.executemany(_PUT_ENCODING, rows)


def canonical(quantizer: Pairs) -> str:
    """Return the text that tells one quantization configuration from another: JSON in the order given."""
    return json.dumps(dict(quantizer), default=_hexadecimal)


def storable(text: str) -> str:
    """Return `text` as SQLite takes it: what is not Unicode, as Python writes it in a string."""
    return text.encode("utf-8", "backslashreplace").decode()


def _hexadecimal(value: Value) -> str:
    return f"0x{bytes(value).hex()}" if isinstance(value, bytes) else str(value)


def _commit_values(record: CommitRecord) -> dict[str, str | int | float | None]:
    commit = record.commit
    return {
        "id": to_hex(record.id),
        "tree": to_hex(commit.tree),
        "author": storable(commit.author),
        "time": commit.time,
        "message": storable(commit.message),
        "step": commit.step,
        "exactness": commit.exactness,
        "lineage_exact": commit.lineage_exact,
        "restored_from": _optional(commit.restored_from),
        "quantized_against": _optional(commit.quantized_against),
        "quantizer_number": None,
        "degradation": commit.degradation,
        "raw_bytes": record.raw_bytes,
        "stored_bytes": record.stored_bytes,
        "exact_bytes": record.exact_bytes,
        "depth": record.depth,
    }


def _optional(identifier: ObjectId | None) -> str | None:
    return None if identifier is None else to_hex(identifier)


def _leaf(tensor: TensorRecord) -> Key:
    return (
        storable(tensor.path or ""),
        storable(tensor.dtype),
        _shape(tensor.shape),
        storable(tensor.role or ""),
    )


@lru_cache(1 << 10)
def _shape(sizes: tuple[int, ...]) -> str:
    return json.dumps(sizes)


def _values(tensors: Sequence[TensorRecord]) -> list[Key]:
    """Return the columns of each tensor; of those that share their encodings they are made once."""
    made: dict[tuple[ObjectId, ObjectId | None, int], Key] = {}
    keys = [(tensor.value, tensor.exact, id(tensor.chunks)) for tensor in tensors]
    for key, tensor in zip(keys, tensors, strict=True):
        if key not in made:
            made[key] = _tensor(tensor)
    return [made[key] for key in keys]


def _tensor(tensor: TensorRecord) -> Key:
    value, exact = to_hex(tensor.value), _optional(tensor.exact)
    stored = [
        (to_hex(chunk.chunk), chunk.encoding, chunk.stored_bytes, chunk.raw_bytes, chunk.depth, chunk.pack)
        for chunk in tensor.chunks
    ]
    fingerprint = checksum(json.dumps([value, exact, stored]).encode()).hex()
    return fingerprint, value, exact
