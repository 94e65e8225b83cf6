"""What is wrong with one pack, and why an object cannot be read."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from mvcs.errors import CorruptionError, MvcsError, some_of
from mvcs.objects import ObjectId, short_id

_NAMED = 3  # reasons, objects and commits that a message names


@dataclass
class Fault:
    """What is wrong with one pack, or because of it.

    Attributes:
        error: the first error.
        reasons: what was found in it, in the order in which it was.
        objects: ids of what cannot be read on its account, here and in packs that lean on it.
    """

    error: MvcsError
    reasons: dict[str, None] = field(default_factory=dict)
    objects: dict[ObjectId, None] = field(default_factory=dict)

    def told(self, advice: str, commits: Sequence[ObjectId]) -> MvcsError:
        """Return all of it as one error, with the commits that lose something by it.

        Its hint is `advice` where the bytes are wrong.
        """
        said = [some_of(list(self.reasons) or [self.error.message], _NAMED, "; ")]
        if self.objects:
            many = "1 object" if len(self.objects) == 1 else f"{len(self.objects)} objects"
            said.append(f"{many} cannot be read: {_shortened(self.objects)}")
        if commits:
            lose = "1 commit loses" if len(commits) == 1 else f"{len(commits)} commits lose"
            said.append(f"{lose} something by it: {_shortened(commits)}")
        hint = advice if isinstance(self.error, CorruptionError) else self.error.hint
        return MvcsError("; ".join(said), hint=hint)


def _shortened(identifiers: Iterable[ObjectId]) -> str:
    return some_of([short_id(identifier) for identifier in identifiers], _NAMED)


class Cause(NamedTuple):
    """Why an object cannot be read.

    Attributes:
        path: the pack at fault.
        is_missing: whether something is missing rather than damaged.
    """

    path: str
    is_missing: bool
