"""Tensors between processes that train together: quantized deltas, and the messages that carry them."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
