"""Why something is in a store: who leads to it, or who gave it up."""
