"""Inshrinkerator (SoCC 2024): its quantizer, the search for its configuration, its delta encoder."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
