"""The lineage index: a rebuildable SQLite cache of who descends from whom, and with what metrics.

SQLAlchemy and Alembic are imported where an older file is written to.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
