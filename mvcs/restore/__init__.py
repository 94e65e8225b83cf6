"""The way out of a commit: a state or files again, or what there is to be said of them."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
