"""The way out of a commit: a state or files again, or what there is to be said of them."""
