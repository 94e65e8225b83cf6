"""The folder of a repository: its files against a commit's, and what a checkout may do to them."""
