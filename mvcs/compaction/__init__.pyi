from .moved_refs import named_commits
from .movement_base import Anew, go_on
from .storing_anew import StoredAnew, StoringAnew, chosen_of

__all__ = ["Anew", "StoredAnew", "StoringAnew", "chosen_of", "go_on", "named_commits"]
