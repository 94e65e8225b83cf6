"""What a commit holds: a nested state or files, with a table of tensor leaves."""
