"""Measuring: training runs made for it, every encoding and quantizer on them, and what a history costs."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
