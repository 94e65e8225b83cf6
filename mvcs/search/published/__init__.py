"""The search of the published method."""
