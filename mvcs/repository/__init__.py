"""The facade: one method per verb, over the rooms that do the work, and what needs the open repository."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
