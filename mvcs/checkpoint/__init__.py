"""What a run hands over: states in memory and checkpoint files, taken apart and put together again."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
