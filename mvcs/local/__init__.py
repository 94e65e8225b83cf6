"""What a clone keeps for itself: where it lies, HEAD, its records, its settings, and whom it trusts."""
