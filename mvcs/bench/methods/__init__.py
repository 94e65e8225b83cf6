"""The published methods of compressing checkpoints, one module each, as their papers say."""
