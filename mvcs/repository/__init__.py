"""The facade: one method per verb, over the rooms that do the work."""

from mvcs.repository.facade import Repository

__all__ = ["Repository"]
