"""What is read through the tables, in an order that does not depend on when rows were written."""

import math
from collections import defaultdict

from sqlalchemy import ColumnElement, Connection, Select, case, func, select

from mvcs.lineage import schema
from mvcs.lineage.records import EncodingRecord, RefRecord, TensorRecord
from mvcs.lineage.writer import COMMIT_SOURCE
from mvcs.objects import ObjectId, as_id, to_hex

Row = dict[str, object]


def identifier(text: str) -> ObjectId:
    """Return the id that a column holds in hexadecimal.

    Raises:
        ValueError: it holds something else.
        CorruptionError: it does not have the length of an id.
    """
    return as_id(bytes.fromhex(text))


class Reader:
    """Answers questions in one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def commits(self, limit: int | None) -> list[Row]:
        """Return the newest `limit` commits, or all, newest first."""
        table, quantizers = schema.commits, schema.quantizers
        columns = [column for column in table.c if column.name not in ("number", "quantizer_number")]
        newest = select(table.c.id).order_by(table.c.time.desc(), table.c.id).limit(limit)
        rows = (
            select(*columns, quantizers.c.text.label("quantizer"))
            .outerjoin(quantizers, quantizers.c.number == table.c.quantizer_number)
            .order_by(table.c.time.desc(), table.c.id)
            .limit(limit)
        )
        parents, metrics = self._parents(newest), self._metrics(newest)
        return [
            {**row, "parents": parents[row["id"]], "metrics": metrics[row["id"]]}
            for row in map(dict, self._connection.execute(rows).mappings())
        ]

    def _parents(self, ids: Select[tuple[str]]) -> defaultdict[str, list[str]]:
        table = schema.parents
        wanted = (
            select(table.c.child, table.c.parent).where(table.c.child.in_(ids)).order_by(*table.primary_key)
        )
        found: defaultdict[str, list[str]] = defaultdict(list)
        for child, parent in self._connection.execute(wanted):
            found[child].append(parent)
        return found

    def _metrics(self, ids: Select[tuple[str]]) -> defaultdict[str, dict[str, float]]:
        table = schema.metrics
        own = table.c.commit_id.in_(ids), table.c.source == COMMIT_SOURCE
        wanted = (
            select(table.c.commit_id, table.c.name, table.c.value).where(*own).order_by(*table.primary_key)
        )
        found: defaultdict[str, dict[str, float]] = defaultdict(dict)
        for commit, name, value in self._connection.execute(wanted):
            found[commit][name] = _number(value)
        return found

    def refs(self) -> list[RefRecord]:
        """Return the newest record of every ref, deleted ones included, by kind and name."""
        table = schema.refs
        wanted = select(table.c.kind, table.c.name, table.c.target, table.c.number).order_by(
            *table.primary_key
        )
        return [
            RefRecord(kind, name, None if target is None else identifier(target), number)
            for kind, name, target, number in self._connection.execute(wanted)
        ]

    def ancestors(self, start: ObjectId) -> list[ObjectId]:
        """Return every commit that `start` descends from, newest first; unrecorded ones last."""
        table = schema.parents
        return self._line(start, table.c.child, table.c.parent)

    def descendants(self, start: ObjectId) -> list[ObjectId]:
        """Return every recorded commit that descends from `start`, newest first."""
        table = schema.parents
        return self._line(start, table.c.parent, table.c.child)

    def _line(self, start: ObjectId, here: ColumnElement[str], there: ColumnElement[str]) -> list[ObjectId]:
        line = select(there.label("id")).where(here == to_hex(start)).cte("line", recursive=True)
        line = line.union(select(there).where(here == line.c.id))
        table = schema.commits
        wanted = (
            select(line.c.id)
            .outerjoin(table, table.c.id == line.c.id)
            .order_by(table.c.time.desc().nulls_last(), line.c.id)
        )
        return [identifier(text) for text in self._connection.execute(wanted).scalars()]

    def tensors(self, commit: ObjectId) -> list[TensorRecord]:
        """Return the tensors of a commit as they were recorded, in the order of its tree."""
        contents, leaves, stored = schema.contents, schema.leaves, schema.tensors
        chunks = self._chunks(commit)
        wanted = (
            select(contents.c.position, leaves, stored.c.value, stored.c.exact)
            .join(schema.commits, schema.commits.c.number == contents.c.commit_number)
            .join(leaves, leaves.c.number == contents.c.leaf_number)
            .join(stored, stored.c.number == contents.c.tensor_number)
            .where(schema.commits.c.id == to_hex(commit))
            .order_by(contents.c.position)
        )
        return [
            TensorRecord(
                path=row.path,
                dtype=row.dtype,
                shape=_shape(row.shape),
                role=row.role or None,
                value=identifier(row.value),
                exact=None if row.exact is None else identifier(row.exact),
                chunks=tuple(chunks[row.position]),
            )
            for row in self._connection.execute(wanted)
        ]

    def encodings(self, commit: ObjectId) -> list[EncodingRecord]:
        """Return how each chunk of a commit lies in the store, in the order of its tree."""
        return [chunk for run in self._chunks(commit).values() for chunk in run]

    def _chunks(self, commit: ObjectId) -> defaultdict[int, list[EncodingRecord]]:
        contents, table, packs = schema.contents, schema.encodings, schema.packs
        columns = (table.c.chunk, table.c.encoding, table.c.stored_bytes, table.c.raw_bytes, table.c.depth)
        wanted = (
            select(contents.c.position, *columns, packs.c.name)
            .join(schema.commits, schema.commits.c.number == contents.c.commit_number)
            .join(table, table.c.tensor_number == contents.c.tensor_number)
            .join(packs, packs.c.number == table.c.pack_number)
            .where(schema.commits.c.id == to_hex(commit))
            .order_by(contents.c.position, table.c.position)
        )
        found: defaultdict[int, list[EncodingRecord]] = defaultdict(list)
        for position, chunk, *rest in self._connection.execute(wanted):
            found[position].append(EncodingRecord(identifier(chunk), *rest))
        return found

    def metrics(self, name: str) -> list[tuple[ObjectId, float]]:
        """Return every value of a metric, oldest commit first, its own value before those of later notes."""
        table, notes = schema.metrics, schema.notes
        own_first = case((table.c.source == COMMIT_SOURCE, 0), else_=1)
        wanted = (
            select(table.c.commit_id, table.c.value)
            .join(schema.commits, schema.commits.c.id == table.c.commit_id)
            .outerjoin(notes, notes.c.id == table.c.source)
            .where(table.c.name == name)
            .order_by(schema.commits.c.time, table.c.commit_id, own_first, notes.c.time, *table.primary_key)
        )
        return [(identifier(commit), _number(value)) for commit, value in self._connection.execute(wanted)]

    def quantizers(self) -> list[tuple[str, int]]:
        """Return each quantization configuration in use, as text, with its number of commits."""
        table = schema.quantizers
        wanted = (
            select(table.c.text, func.count())
            .join(schema.commits, schema.commits.c.quantizer_number == table.c.number)
            .group_by(table.c.text)
            .order_by(table.c.text)
        )
        return [(text, count) for text, count in self._connection.execute(wanted)]


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _shape(text: str) -> tuple[int, ...]:
    return tuple(int(size) for size in text.strip("[]").split(",") if size)
