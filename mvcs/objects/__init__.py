"""What values mean: ids, canonical bytes, the chunk grid, and the objects a commit is made of."""
