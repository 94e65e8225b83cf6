"""What plugs into torch so that processes that train together send each other fewer bytes."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
