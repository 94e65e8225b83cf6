"""Why a commit is no smaller beside its state, told from what it recorded."""
