"""How values look on a terminal: sizes, tables, histories, differences, progress. Nothing here prints."""
