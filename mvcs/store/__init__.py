"""Where objects lie: backends, packs, and the verified way in and out of them."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
