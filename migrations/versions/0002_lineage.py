"""Whether a lineage is exact may be unknown."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    with op.batch_alter_table("commits", recreate="always") as batch:
        batch.alter_column("lineage_exact", existing_type=sa.Boolean(), nullable=True)


def downgrade() -> None:
    # What is unknown must not be taken for exact.
    op.execute("UPDATE commits SET lineage_exact = 0 WHERE lineage_exact IS NULL")
    with op.batch_alter_table("commits", recreate="always") as batch:
        batch.alter_column("lineage_exact", existing_type=sa.Boolean(), nullable=False)
