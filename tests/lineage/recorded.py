"""What an index holds, as people ask it: by SQL."""

import json
import math

from mvcs.errors import ConflictError, NotFoundError
from mvcs.lineage import EncodingRecord, TensorRecord
from mvcs.objects.ids import as_id

MOST = 1 << 20
ENCODINGS = (
    "SELECT m.id AS 'of', c.position AS place, e.*, p.name FROM contents c"
    " JOIN commits m ON m.number = c.commit_number JOIN encodings e ON e.tensor_number = c.tensor_number"
    " JOIN packs p ON p.number = e.pack_number ORDER BY c.position, e.position"
)
TENSORS = (
    "SELECT m.id AS 'of', c.position, l.path, l.dtype, l.shape, l.role, t.value, t.exact FROM contents c"
    " JOIN commits m ON m.number = c.commit_number JOIN leaves l ON l.number = c.leaf_number"
    " JOIN tensors t ON t.number = c.tensor_number ORDER BY c.position"
)
METRICS = (
    "SELECT m.commit_id, m.name, m.value FROM metrics m JOIN commits c ON c.id = m.commit_id"
    " LEFT JOIN notes n ON n.id = m.source"
    " ORDER BY c.time, m.commit_id, m.source != 'commit', n.time, m.source, m.position"
)


def asked(lineage, sql):
    """Return the rows of a query as dicts; none where there is no index. Waits for who writes it."""
    while True:
        try:
            columns, rows = lineage.query(sql, MOST)
        except ConflictError:
            continue
        except NotFoundError:
            return []
        return [dict(zip(columns, row, strict=True)) for row in rows]


def identifier(text):
    return as_id(bytes.fromhex(text))


def commits(lineage):
    """Return the rows of all commits with parents, own metrics and quantizer, newest first."""
    found = asked(
        lineage,
        "SELECT c.*, q.text AS quantizer FROM commits c"
        " LEFT JOIN quantizers q ON q.number = c.quantizer_number ORDER BY c.time DESC, c.id",
    )
    parents = asked(lineage, "SELECT * FROM parents ORDER BY child, position")
    metrics = asked(lineage, "SELECT * FROM metrics WHERE source = 'commit' ORDER BY commit_id, position")
    for row in found:
        row["parents"] = [one["parent"] for one in parents if one["child"] == row["id"]]
        row["metrics"] = {one["name"]: one["value"] for one in metrics if one["commit_id"] == row["id"]}
        del row["number"], row["quantizer_number"]
    return found


def of(rows, commit):
    """Return the rows of one commit."""
    return [row for row in rows if row["of"] == commit.hex()]


def tensors(lineage, commit):
    """Return the tensors of a commit as they were recorded, in the order of its tree."""
    found, chunks = of(asked(lineage, TENSORS), commit), {}  # in this order: both are written at once
    for row in of(asked(lineage, ENCODINGS), commit):
        sizes = row["stored_bytes"], row["raw_bytes"], row["depth"]
        record = EncodingRecord(identifier(row["chunk"]), row["encoding"], *sizes, row["name"])
        chunks.setdefault(row["place"], []).append(record)
    return [
        TensorRecord(
            path=row["path"],
            dtype=row["dtype"],
            shape=tuple(json.loads(row["shape"])),
            role=row["role"] or None,
            value=identifier(row["value"]),
            exact=None if row["exact"] is None else identifier(row["exact"]),
            chunks=tuple(chunks.get(row["position"], ())),
        )
        for row in found
    ]


def metrics(lineage, name):
    """Return every value of a metric, oldest commit first, its own before those of later notes."""
    return [
        (identifier(row["commit_id"]), math.nan if row["value"] is None else row["value"])
        for row in asked(lineage, METRICS)
        if row["name"] == name
    ]


def quantizers(lineage):
    """Return the text of each quantizer in use, with its number of commits."""
    found = asked(
        lineage,
        "SELECT q.text, count(*) AS uses FROM quantizers q JOIN commits c ON c.quantizer_number = q.number"
        " GROUP BY q.text ORDER BY q.text",
    )
    return [(row["text"], row["uses"]) for row in found]
