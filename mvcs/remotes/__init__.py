"""Moving history between stores: find what is missing, copy packs, verify, and move refs last."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
