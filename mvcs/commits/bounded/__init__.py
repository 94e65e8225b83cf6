"""The bounded half of a commit: each group of leaves gets its quantizers, and is stored by them."""
