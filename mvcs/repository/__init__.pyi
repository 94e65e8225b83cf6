from .completions import Candidate, Candidates, grouped_by_part
from .facade import Repository, open_or_init
from .sharing.remote_stores import store_address

__all__ = [
    "Candidate",
    "Candidates",
    "Repository",
    "grouped_by_part",
    "open_or_init",
    "store_address",
]
