"""The facade: one method per verb, over the rooms that do the work, and what needs the open repository."""

from mvcs.local.trust import Trust
from mvcs.repository.facade import Repository, open_or_init

__all__ = ["Repository", "Trust", "open_or_init"]
