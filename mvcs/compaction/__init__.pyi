from .repack import Repack, Repacked, Terms, chosen_of, never_rest

__all__ = [
    "Repack",
    "Repacked",
    "Terms",
    "chosen_of",
    "never_rest",
]
