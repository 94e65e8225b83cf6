"""Training runs that are always the same, and what is recorded of them."""
