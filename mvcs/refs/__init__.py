"""Mutable names for immutable commits: numbered records, changed by exclusive create, kept as the reflog."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
