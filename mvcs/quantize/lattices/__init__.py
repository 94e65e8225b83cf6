"""Values to multiples of a step, and back."""
