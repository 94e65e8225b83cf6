from .rewriting import Anew, never_rest
from .storing_anew import NothingGainedError, StoredAnew, StoringAnew, chosen_of, named_commits

__all__ = [
    "Anew",
    "NothingGainedError",
    "StoredAnew",
    "StoringAnew",
    "chosen_of",
    "named_commits",
    "never_rest",
]
