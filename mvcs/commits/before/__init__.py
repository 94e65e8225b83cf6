"""What earlier commits tell of weights: where they were, and what momentum would still do."""
