"""What the verbs of a repository answer: plain values that render themselves as JSON."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
