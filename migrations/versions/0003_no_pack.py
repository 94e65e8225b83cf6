"""A commit has no pack by which it is found: its manifest tells where its data lie."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    with op.batch_alter_table("commits", recreate="always") as batch:
        batch.drop_column("pack")


def downgrade() -> None:
    with op.batch_alter_table("commits", recreate="always") as batch:
        batch.add_column(sa.Column("pack", sa.Text(), nullable=False, server_default=""))
