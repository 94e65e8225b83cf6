"""The published method beside a running loop: what chooses its settings, and the scores of weights."""
