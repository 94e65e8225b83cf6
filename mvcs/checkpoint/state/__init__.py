"""A state in memory, taken apart into leaves and put together again."""
