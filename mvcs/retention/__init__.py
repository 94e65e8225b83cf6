"""Which data and exact layers stay, by which rule, and which were given up."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
