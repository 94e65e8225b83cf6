"""The formats of checkpoint files, read strictly and without running anything."""
