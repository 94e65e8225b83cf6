"""What happened in which order: walking commits, resolving revisions, finding where branches parted."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
