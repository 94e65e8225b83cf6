"""From floats to codes and back: sketches, code tables, lattices, moments; measured errors and progress."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
