"""How the commits of a run are bounded."""
