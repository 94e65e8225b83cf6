"""The state of a run: its parts, their copy in host memory, and how they are loaded back."""
