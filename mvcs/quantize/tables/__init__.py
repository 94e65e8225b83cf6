"""Values to the nearest of a table that is fitted to them, and back."""
