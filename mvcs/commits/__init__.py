"""The way in: from what was handed over to a commit that a branch names."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
