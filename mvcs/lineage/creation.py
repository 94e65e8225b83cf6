"""A new database: all tables at once, just as the migrations would have left them.

The tables stand here in SQL, so that a first commit imports neither SQLAlchemy nor Alembic: that takes longer
than the commit does. Tests compare them with `mvcs.lineage.schema` and the migrations to the letter.
"""

import sqlite3
from contextlib import closing
from pathlib import Path

from mvcs.lineage.database import APPLICATION_ID, HEAD, Mode, connect, immediate, is_blank, prefer_wal

_TABLES = """
CREATE TABLE quantizers (
    number INTEGER NOT NULL,
    text TEXT NOT NULL,
    CONSTRAINT pk_quantizers PRIMARY KEY (number),
    CONSTRAINT uq_quantizers_text UNIQUE (text)
);
CREATE TABLE commits (
    number INTEGER NOT NULL,
    id TEXT NOT NULL,
    tree TEXT NOT NULL,
    author TEXT NOT NULL,
    time INTEGER NOT NULL,
    message TEXT NOT NULL,
    step INTEGER,
    exactness TEXT NOT NULL,
    lineage_exact BOOLEAN,
    restored_from TEXT,
    quantized_against TEXT,
    quantizer_number INTEGER,
    degradation REAL,
    raw_bytes INTEGER NOT NULL,
    stored_bytes INTEGER NOT NULL,
    exact_bytes INTEGER NOT NULL,
    depth INTEGER NOT NULL,
    CONSTRAINT pk_commits PRIMARY KEY (number),
    CONSTRAINT uq_commits_id UNIQUE (id),
    CONSTRAINT fk_commits_quantizer_number FOREIGN KEY (quantizer_number) REFERENCES quantizers (number)
);
CREATE INDEX ix_commits_time ON commits (time);
CREATE INDEX ix_commits_step ON commits (step);
CREATE INDEX ix_commits_quantizer_number ON commits (quantizer_number);
CREATE TABLE parents (
    child TEXT NOT NULL,
    position INTEGER NOT NULL,
    parent TEXT NOT NULL,
    CONSTRAINT pk_parents PRIMARY KEY (child, position),
    CONSTRAINT fk_parents_child FOREIGN KEY (child) REFERENCES commits (id) ON DELETE CASCADE
) WITHOUT ROWID;
CREATE INDEX ix_parents_parent ON parents (parent, child);
CREATE TABLE refs (
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    target TEXT,
    number INTEGER NOT NULL,
    CONSTRAINT pk_refs PRIMARY KEY (kind, name)
) WITHOUT ROWID;
CREATE INDEX ix_refs_target ON refs (target);
CREATE TABLE notes (
    id TEXT NOT NULL,
    target TEXT NOT NULL,
    author TEXT NOT NULL,
    time INTEGER NOT NULL,
    CONSTRAINT pk_notes PRIMARY KEY (id)
) WITHOUT ROWID;
CREATE INDEX ix_notes_target ON notes (target);
CREATE TABLE metrics (
    commit_id TEXT NOT NULL,
    source TEXT NOT NULL,
    position INTEGER NOT NULL,
    name TEXT NOT NULL,
    value REAL,
    CONSTRAINT pk_metrics PRIMARY KEY (commit_id, source, position)
) WITHOUT ROWID;
CREATE INDEX ix_metrics_name ON metrics (name, value);
CREATE TABLE packs (
    number INTEGER NOT NULL,
    name TEXT NOT NULL,
    CONSTRAINT pk_packs PRIMARY KEY (number),
    CONSTRAINT uq_packs_name UNIQUE (name)
);
CREATE TABLE leaves (
    number INTEGER NOT NULL,
    path TEXT NOT NULL,
    dtype TEXT NOT NULL,
    shape TEXT NOT NULL,
    role TEXT NOT NULL,
    CONSTRAINT pk_leaves PRIMARY KEY (number),
    CONSTRAINT uq_leaves_path UNIQUE (path, dtype, shape, role)
);
CREATE TABLE tensors (
    number INTEGER NOT NULL,
    fingerprint TEXT NOT NULL,
    value TEXT NOT NULL,
    exact TEXT,
    CONSTRAINT pk_tensors PRIMARY KEY (number),
    CONSTRAINT uq_tensors_fingerprint UNIQUE (fingerprint)
);
CREATE TABLE contents (
    commit_number INTEGER NOT NULL,
    position INTEGER NOT NULL,
    leaf_number INTEGER NOT NULL,
    tensor_number INTEGER NOT NULL,
    CONSTRAINT pk_contents PRIMARY KEY (commit_number, position),
    CONSTRAINT fk_contents_commit_number FOREIGN KEY (commit_number)
        REFERENCES commits (number) ON DELETE CASCADE,
    CONSTRAINT fk_contents_leaf_number FOREIGN KEY (leaf_number) REFERENCES leaves (number),
    CONSTRAINT fk_contents_tensor_number FOREIGN KEY (tensor_number) REFERENCES tensors (number)
) WITHOUT ROWID;
CREATE INDEX ix_contents_tensor_number ON contents (tensor_number);
CREATE TABLE encodings (
    tensor_number INTEGER NOT NULL,
    position INTEGER NOT NULL,
    chunk TEXT NOT NULL,
    encoding TEXT NOT NULL,
    stored_bytes INTEGER NOT NULL,
    raw_bytes INTEGER NOT NULL,
    depth INTEGER NOT NULL,
    pack_number INTEGER NOT NULL,
    CONSTRAINT pk_encodings PRIMARY KEY (tensor_number, position),
    CONSTRAINT fk_encodings_tensor_number FOREIGN KEY (tensor_number)
        REFERENCES tensors (number) ON DELETE CASCADE,
    CONSTRAINT fk_encodings_pack_number FOREIGN KEY (pack_number) REFERENCES packs (number)
) WITHOUT ROWID;
CREATE TABLE alembic_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
)
"""


def create_file(path: Path) -> None:
    """Create the file in the newest schema, in one transaction; one that another process made stays.

    Raises:
        sqlite3.Error: SQLite refused something; there are no tables then.
    """
    with closing(connect(path, Mode.CREATE)) as connection:
        prefer_wal(connection)
        with immediate(connection):
            if is_blank(connection):
                create(connection)


def create(connection: sqlite3.Connection) -> None:
    """Make the tables of the newest schema in an empty database."""
    connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
    for statement in _TABLES.split(";"):
        connection.execute(statement)
    connection.execute("INSERT INTO alembic_version VALUES (?)", (HEAD,))
