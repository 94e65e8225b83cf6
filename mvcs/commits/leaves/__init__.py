"""One leaf stored: as codes, or exactly."""
