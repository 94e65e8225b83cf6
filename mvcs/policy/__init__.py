"""What is kept for how long: exact layers, and the record of what was dropped."""
