"""What a clone keeps for itself: where it lies, HEAD, its records, its settings, and whom it trusts."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
