"""Which loss of quality is acceptable, which candidate comes next, and how few batches decide about it."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
