from .moved_refs import named_commits
from .rewriting import Anew, never_rest
from .storing_anew import NothingGainedError, StoredAnew, StoringAnew, chosen_of

__all__ = [
    "Anew",
    "NothingGainedError",
    "StoredAnew",
    "StoringAnew",
    "chosen_of",
    "named_commits",
    "never_rest",
]
