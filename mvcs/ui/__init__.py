"""How values look on a terminal: sizes, tables, histories, differences, progress. Nothing here prints."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
