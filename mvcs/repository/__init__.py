"""The facade: one method per verb, over the rooms that do the work."""

from mvcs.local.trust import Trust
from mvcs.repository.facade import Repository, open_or_init

__all__ = ["Repository", "Trust", "open_or_init"]
