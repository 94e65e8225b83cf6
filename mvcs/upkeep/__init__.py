"""A store kept in order: is it whole, and what in it does nothing need?"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
