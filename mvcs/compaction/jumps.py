"""How deep each commit lies where chains are short: some are near commits further back, few are snapshots."""

LONGEST = 8
"""Chains above are cut by snapshots alone: jumps save less there than longer ways to most commits cost."""


def period(most: int) -> int:
    """Return after how many commits the next one is a snapshot."""
    return (most + 1) * (most + 2) // 2


def depth_at(number: int, most: int) -> int | None:
    """Return how many deltas a commit may have below it; None where `most` alone tells.

    The first ones are a chain of `most` deltas. The next commit is near the one at its beginning, and begins
    a chain that is one delta shorter; and so on, until a chain is a single commit.

    Args:
        number: how many commits come before, along first parents.
        most: deltas between a chunk and its snapshot.
    """
    if most > LONGEST:
        return None
    left, start = number % period(most), 0
    while left > most - start:
        left -= most - start + 1
        start += 1
    return start + left
