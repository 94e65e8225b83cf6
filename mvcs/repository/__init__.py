"""The facade: one method per verb, over the rooms that do the work."""

from mvcs.repository.facade import Repository
from mvcs.repository.trust import Trust

__all__ = ["Repository", "Trust"]
