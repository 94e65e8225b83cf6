"""The way in: from what was handed over to a commit that a branch names."""
