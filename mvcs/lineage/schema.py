"""The tables, as SQLAlchemy knows them; `creation` and the migrations make the same ones, and tests compare.

Ids are hexadecimal text, since people look inside with any SQLite tool. What repeats from commit to commit is
stored once and named by a number: leaves (a place in the state), tensors (a content as stored), packs and
quantizers. A row of `contents`, one for each tensor of each commit, holds nothing but small numbers.
"""

from sqlalchemy import (
    REAL,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
)

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ix": "ix_%(table_name)s_%(column_0_name)s",
    }
)

quantizers = Table(
    "quantizers",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("text", Text, nullable=False, unique=True),
)

commits = Table(
    "commits",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("id", Text, nullable=False, unique=True),
    Column("tree", Text, nullable=False),
    Column("author", Text, nullable=False),
    Column("time", Integer, nullable=False, index=True),
    Column("message", Text, nullable=False),
    Column("step", Integer, index=True),
    Column("exactness", Text, nullable=False),
    Column("lineage_exact", Boolean),
    Column("restored_from", Text),
    Column("quantized_against", Text),
    Column("quantizer_number", Integer, ForeignKey("quantizers.number"), index=True),
    Column("degradation", REAL),
    Column("raw_bytes", Integer, nullable=False),
    Column("stored_bytes", Integer, nullable=False),
    Column("exact_bytes", Integer, nullable=False),
    Column("depth", Integer, nullable=False),
)

# A parent is an id and no reference: it may be unknown here, in a shallow or half-fetched history.
parents = Table(
    "parents",
    metadata,
    Column("child", Text, ForeignKey("commits.id", ondelete="CASCADE"), nullable=False),
    Column("position", Integer, nullable=False),
    Column("parent", Text, nullable=False),
    PrimaryKeyConstraint("child", "position"),
    Index(None, "parent", "child"),
    sqlite_with_rowid=False,
)

refs = Table(
    "refs",
    metadata,
    Column("kind", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("target", Text, index=True),
    Column("number", Integer, nullable=False),
    PrimaryKeyConstraint("kind", "name"),
    sqlite_with_rowid=False,
)

notes = Table(
    "notes",
    metadata,
    Column("id", Text, nullable=False),
    Column("target", Text, nullable=False, index=True),
    Column("author", Text, nullable=False),
    Column("time", Integer, nullable=False),
    PrimaryKeyConstraint("id"),
    sqlite_with_rowid=False,
)

# `source` is 'commit' or the id of a note, which may arrive before its commit; a NaN value is NULL in SQLite.
metrics = Table(
    "metrics",
    metadata,
    Column("commit_id", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("position", Integer, nullable=False),
    Column("name", Text, nullable=False),
    Column("value", REAL),
    PrimaryKeyConstraint("commit_id", "source", "position"),
    Index(None, "name", "value"),
    sqlite_with_rowid=False,
)

packs = Table(
    "packs",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
)

# `role` is empty where a commit does not tell: NULLs would not be unique.
leaves = Table(
    "leaves",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("path", Text, nullable=False),
    Column("dtype", Text, nullable=False),
    Column("shape", Text, nullable=False),
    Column("role", Text, nullable=False),
    UniqueConstraint("path", "dtype", "shape", "role"),
)

# `fingerprint` is a checksum of the other columns and the encodings: the same tensor in other packs is
# another row, so that what a commit is read from does not depend on the order of writing.
tensors = Table(
    "tensors",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("fingerprint", Text, nullable=False, unique=True),
    Column("value", Text, nullable=False),
    Column("exact", Text),
)

contents = Table(
    "contents",
    metadata,
    Column("commit_number", Integer, ForeignKey("commits.number", ondelete="CASCADE"), nullable=False),
    Column("position", Integer, nullable=False),
    Column("leaf_number", Integer, ForeignKey("leaves.number"), nullable=False),
    Column("tensor_number", Integer, ForeignKey("tensors.number"), nullable=False, index=True),
    PrimaryKeyConstraint("commit_number", "position"),
    sqlite_with_rowid=False,
)

encodings = Table(
    "encodings",
    metadata,
    Column("tensor_number", Integer, ForeignKey("tensors.number", ondelete="CASCADE"), nullable=False),
    Column("position", Integer, nullable=False),
    Column("chunk", Text, nullable=False),
    Column("encoding", Text, nullable=False),
    Column("stored_bytes", Integer, nullable=False),
    Column("raw_bytes", Integer, nullable=False),
    Column("depth", Integer, nullable=False),
    Column("pack_number", Integer, ForeignKey("packs.number"), nullable=False),
    PrimaryKeyConstraint("tensor_number", "position"),
    sqlite_with_rowid=False,
)
