"""Data of commits stored again: with shorter chains, in fewer bytes, or without what is dropped."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
