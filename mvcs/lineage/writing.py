"""What is written: commits with their tensors, refs and notes; each an upsert in the caller's transaction."""

import json
from collections.abc import Iterable, Sequence

from sqlalchemy import Connection, delete, exists, select
from sqlalchemy.dialects.sqlite import insert

from mvcs.lineage import schema
from mvcs.lineage.numbers import LOOK_UP, Numbers
from mvcs.lineage.records import CommitRecord, NoteRecord, RefRecord, TensorRecord
from mvcs.objects.cbor import Value
from mvcs.objects.fields import Pairs
from mvcs.objects.ids import ObjectId, checksum, to_hex

COMMIT_SOURCE = "commit"


class Writer:
    """Writes records in one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._quantizers = Numbers(connection, schema.quantizers, ["text"])
        self._packs = Numbers(connection, schema.packs, ["name"])
        self._leaves = Numbers(connection, schema.leaves, ["path", "dtype", "shape", "role"])
        self._tensors = Numbers(connection, schema.tensors, ["fingerprint"])

    def commit(self, record: CommitRecord) -> None:
        """Write a commit, replacing what was known of it."""
        number = self._commit_row(record)
        identifier = to_hex(record.id)
        self._parents(identifier, record.commit.parents)
        self._metrics(identifier, COMMIT_SOURCE, record.commit.metrics)
        self._contents(number, record.tensors)

    def ref(self, record: RefRecord) -> None:
        """Write a ref, unless a newer record of it is known."""
        row = {
            "kind": record.kind,
            "name": storable(record.name),
            "target": None if record.target is None else to_hex(record.target),
            "number": record.number,
        }
        statement = insert(schema.refs).values(row)
        newer = statement.excluded.number >= schema.refs.c.number
        changed = {"target": statement.excluded.target, "number": statement.excluded.number}
        self._connection.execute(statement.on_conflict_do_update(set_=changed, where=newer))

    def note(self, record: NoteRecord) -> None:
        """Write a note and its metrics."""
        identifier, target = to_hex(record.id), to_hex(record.target)
        row = {"id": identifier, "target": target, "author": storable(record.author), "time": record.time}
        self._connection.execute(insert(schema.notes).values(row).on_conflict_do_nothing())
        self._metrics(target, identifier, record.metrics)

    def forget(self, ids: Sequence[ObjectId]) -> None:
        """Remove commits, their notes, and the tensors that no other commit holds."""
        for start in range(0, len(ids), LOOK_UP):
            self._forget([to_hex(identifier) for identifier in ids[start : start + LOOK_UP]])

    def _commit_row(self, record: CommitRecord) -> int:
        table = schema.commits
        row = _commit_values(record)
        if record.commit.quantizer is not None:
            [row["quantizer_number"]], _ = self._quantizers.of([{"text": canonical(record.commit.quantizer)}])
        statement = insert(table).values(row)
        self._connection.execute(statement.on_conflict_do_update(index_elements=["id"], set_=row))
        wanted = select(table.c.number).where(table.c.id == row["id"])
        number: int = self._connection.execute(wanted).scalar_one()
        return number

    def _parents(self, child: str, parents: Iterable[ObjectId]) -> None:
        self._connection.execute(delete(schema.parents).where(schema.parents.c.child == child))
        rows = [
            {"child": child, "position": position, "parent": to_hex(parent)}
            for position, parent in enumerate(parents)
        ]
        if rows:
            self._connection.execute(insert(schema.parents), rows)

    def _metrics(self, commit: str, source: str, metrics: Iterable[tuple[str, float]]) -> None:
        table = schema.metrics
        self._connection.execute(delete(table).where(table.c.commit_id == commit, table.c.source == source))
        rows = [
            {"commit_id": commit, "source": source, "position": index, "name": storable(name), "value": value}
            for index, (name, value) in enumerate(metrics)
        ]
        if rows:
            self._connection.execute(insert(table), rows)

    def _contents(self, commit: int, tensors: Sequence[TensorRecord]) -> None:
        table = schema.contents
        self._connection.execute(delete(table).where(table.c.commit_number == commit))
        if not tensors:
            return
        leaves, _ = self._leaves.of([_leaf(tensor) for tensor in tensors])
        numbers, new = self._tensors.of(_values(tensors))
        self._encodings(
            {number: tensor for number, tensor in zip(numbers, tensors, strict=True) if number in new}
        )
        rows = [
            {"commit_number": commit, "position": position, "leaf_number": leaf, "tensor_number": tensor}
            for position, (leaf, tensor) in enumerate(zip(leaves, numbers, strict=True))
        ]
        self._connection.execute(insert(table), rows)

    def _encodings(self, tensors: dict[int, TensorRecord]) -> None:
        chunks = [
            (number, position, chunk)
            for number, tensor in tensors.items()
            for position, chunk in enumerate(tensor.chunks)
        ]
        if not chunks:
            return
        packs, _ = self._packs.of([{"name": storable(chunk.pack)} for _, _, chunk in chunks])
        rows = [
            {
                "tensor_number": number,
                "position": position,
                "chunk": to_hex(chunk.chunk),
                "encoding": storable(chunk.encoding),
                "stored_bytes": chunk.stored_bytes,
                "raw_bytes": chunk.raw_bytes,
                "depth": chunk.depth,
                "pack_number": pack,
            }
            for (number, position, chunk), pack in zip(chunks, packs, strict=True)
        ]
        self._connection.execute(insert(schema.encodings), rows)

    def _forget(self, ids: Sequence[str]) -> None:
        commits, contents, tensors = schema.commits, schema.contents, schema.tensors
        doomed = select(commits.c.number).where(commits.c.id.in_(ids))
        held = select(contents.c.tensor_number).where(contents.c.commit_number.in_(doomed)).distinct()
        candidates = list(self._connection.execute(held).scalars())
        for table, column in (
            (commits, commits.c.id),
            (schema.notes, schema.notes.c.target),
            (schema.metrics, schema.metrics.c.commit_id),
        ):
            self._connection.execute(delete(table).where(column.in_(ids)))
        unheld = ~exists().where(contents.c.tensor_number == tensors.c.number)
        for start in range(0, len(candidates), LOOK_UP):
            chosen = tensors.c.number.in_(candidates[start : start + LOOK_UP])
            self._connection.execute(delete(tensors).where(chosen, unheld))


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
        "lineage_exact": commit.lineage,
        "restored_from": _optional(commit.restored_from),
        "quantized_against": _optional(commit.quantized_against),
        "quantizer_number": None,
        "degradation": commit.degradation,
        "raw_bytes": record.raw_bytes,
        "stored_bytes": record.stored_bytes,
        "exact_bytes": record.exact_bytes,
        "depth": record.depth,
        "pack": storable(record.pack),
    }


def _optional(identifier: ObjectId | None) -> str | None:
    return None if identifier is None else to_hex(identifier)


def _leaf(tensor: TensorRecord) -> dict[str, str | None]:
    return {
        "path": storable(tensor.path),
        "dtype": storable(tensor.dtype),
        "shape": json.dumps(tensor.shape),
        "role": storable(tensor.role or ""),
    }


def _values(tensors: Sequence[TensorRecord]) -> list[dict[str, str | None]]:
    """Return the columns of each tensor; of those that share their encodings they are made once."""
    made: dict[tuple[ObjectId, ObjectId | None, int], dict[str, str | None]] = {}
    keys = [(tensor.value, tensor.exact, id(tensor.chunks)) for tensor in tensors]
    for key, tensor in zip(keys, tensors, strict=True):
        if key not in made:
            made[key] = _tensor(tensor)
    return [made[key] for key in keys]


def _tensor(tensor: TensorRecord) -> dict[str, str | None]:
    value, exact = to_hex(tensor.value), _optional(tensor.exact)
    stored = [
        (to_hex(chunk.chunk), chunk.encoding, chunk.stored_bytes, chunk.raw_bytes, chunk.depth, chunk.pack)
        for chunk in tensor.chunks
    ]
    fingerprint = checksum(json.dumps([value, exact, stored]).encode()).hex()
    return {"fingerprint": fingerprint, "value": value, "exact": exact}
