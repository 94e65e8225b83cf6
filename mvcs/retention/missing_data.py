"""What is said of commits that are to be kept, and whose data were dropped before."""

from collections.abc import Mapping, Sequence

from mvcs.objects import ObjectId, short_id

GONE = ", and are gone"
_ENDS = 2  # so many have nothing between them


def dropped_before(commits: Sequence[ObjectId], names: Mapping[ObjectId, str], now: str) -> list[str]:
    """Say it of each commit, or of many at once.

    Args:
        commits: the newest first.
        names: what they are called.
        now: what became of their data.
    """
    if len(commits) <= _ENDS:
        return [f"the data of {short_id(key)} were dropped before{now}" for key in commits]
    ends = " to ".join(_named(key, names) for key in (commits[0], commits[-1]))
    return [f"the data of {len(commits)} commits, {ends}, were dropped before{now}"]


def _named(commit: ObjectId, names: Mapping[ObjectId, str]) -> str:
    short = short_id(commit)
    name = names.get(commit, short)
    return short if name == short else f"{name} ({short})"
