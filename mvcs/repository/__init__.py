"""The facade: one method per verb, over the rooms that do the work."""

from mvcs.repository.facade import Repository, open_or_init
from mvcs.repository.trust import Trust

__all__ = ["Repository", "Trust", "open_or_init"]
