"""The first tables: commits, parents, refs, notes, metrics, quantizers, and tensors with their encodings."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    _create_history()
    _create_annotations()
    _create_tensors()


def _create_history() -> None:
    op.create_table(
        "quantizers",
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_quantizers"),
        sa.UniqueConstraint("text", name="uq_quantizers_text"),
    )
    op.create_table(
        "commits",
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("tree", sa.Text(), nullable=False),
        sa.Column("author", sa.Text(), nullable=False),
        sa.Column("time", sa.Integer(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("step", sa.Integer(), nullable=True),
        sa.Column("exactness", sa.Text(), nullable=False),
        sa.Column("lineage_exact", sa.Boolean(), nullable=False),
        sa.Column("restored_from", sa.Text(), nullable=True),
        sa.Column("quantized_against", sa.Text(), nullable=True),
        sa.Column("quantizer_number", sa.Integer(), nullable=True),
        sa.Column("degradation", sa.REAL(), nullable=True),
        sa.Column("raw_bytes", sa.Integer(), nullable=False),
        sa.Column("stored_bytes", sa.Integer(), nullable=False),
        sa.Column("exact_bytes", sa.Integer(), nullable=False),
        sa.Column("depth", sa.Integer(), nullable=False),
        sa.Column("pack", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["quantizer_number"], ["quantizers.number"], name="fk_commits_quantizer_number"
        ),
        sa.PrimaryKeyConstraint("number", name="pk_commits"),
        sa.UniqueConstraint("id", name="uq_commits_id"),
    )
    op.create_index("ix_commits_quantizer_number", "commits", ["quantizer_number"])
    op.create_index("ix_commits_step", "commits", ["step"])
    op.create_index("ix_commits_time", "commits", ["time"])
    op.create_table(
        "parents",
        sa.Column("child", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("parent", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["child"], ["commits.id"], name="fk_parents_child", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("child", "position", name="pk_parents"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_parents_parent", "parents", ["parent", "child"])


def _create_annotations() -> None:
    op.create_table(
        "refs",
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=True),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("kind", "name", name="pk_refs"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_refs_target", "refs", ["target"])
    op.create_table(
        "notes",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("author", sa.Text(), nullable=False),
        sa.Column("time", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_notes"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_notes_target", "notes", ["target"])
    op.create_table(
        "metrics",
        sa.Column("commit_id", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.REAL(), nullable=True),
        sa.PrimaryKeyConstraint("commit_id", "source", "position", name="pk_metrics"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_metrics_name", "metrics", ["name", "value"])


def _create_tensors() -> None:
    op.create_table(
        "packs",
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_packs"),
        sa.UniqueConstraint("name", name="uq_packs_name"),
    )
    op.create_table(
        "leaves",
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("dtype", sa.Text(), nullable=False),
        sa.Column("shape", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_leaves"),
        sa.UniqueConstraint("path", "dtype", "shape", "role", name="uq_leaves_path"),
    )
    op.create_table(
        "tensors",
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("exact", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("number", name="pk_tensors"),
        sa.UniqueConstraint("fingerprint", name="uq_tensors_fingerprint"),
    )
    op.create_table(
        "contents",
        sa.Column("commit_number", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("leaf_number", sa.Integer(), nullable=False),
        sa.Column("tensor_number", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["commit_number"], ["commits.number"], name="fk_contents_commit_number", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["leaf_number"], ["leaves.number"], name="fk_contents_leaf_number"),
        sa.ForeignKeyConstraint(["tensor_number"], ["tensors.number"], name="fk_contents_tensor_number"),
        sa.PrimaryKeyConstraint("commit_number", "position", name="pk_contents"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_contents_tensor_number", "contents", ["tensor_number"])
    op.create_table(
        "encodings",
        sa.Column("tensor_number", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("chunk", sa.Text(), nullable=False),
        sa.Column("encoding", sa.Text(), nullable=False),
        sa.Column("stored_bytes", sa.Integer(), nullable=False),
        sa.Column("raw_bytes", sa.Integer(), nullable=False),
        sa.Column("depth", sa.Integer(), nullable=False),
        sa.Column("pack_number", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["pack_number"], ["packs.number"], name="fk_encodings_pack_number"),
        sa.ForeignKeyConstraint(
            ["tensor_number"], ["tensors.number"], name="fk_encodings_tensor_number", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("tensor_number", "position", name="pk_encodings"),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    for table in (
        "encodings",
        "contents",
        "tensors",
        "leaves",
        "packs",
        "metrics",
        "notes",
        "refs",
        "parents",
        "commits",
        "quantizers",
    ):
        op.drop_table(table)
