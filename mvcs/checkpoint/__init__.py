"""What a run hands over: states in memory and checkpoint files, taken apart and put together again."""
