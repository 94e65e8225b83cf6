"""Alembic's environment: migrates the database on the connection that mvcs.lineage.migration hands over."""

from alembic import context

from mvcs.lineage.schema import metadata

# SQLite's changes of the schema are transactional when, as here, the transaction is begun explicitly.
context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
