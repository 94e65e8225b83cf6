"""Encodings, below the id: how the bytes of one chunk become a payload, alone or near a base chunk."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
