"""What every moment of a state is, and what of it the user described."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from mvcs.checkpoint import Moment
from mvcs.commits.plan.optimizer_states import OptimizerState
from mvcs.errors import some_of
from mvcs.objects import Commit
from mvcs.quantize import MomentsConfig

PROVENANCE: Final = "moment kinds"
NO_SUCH_MOMENT: Final = "no optimizer's state has a tensor of that name"  # in notes
_COUNTERS: Final = frozenset({"step", "mu_product"})
_NAMED = 12


@dataclass(frozen=True)
class MomentKinds:
    """What the moments of a state are.

    Attributes:
        leaves: what moments are, by the number of the leaf; those it does not have are kept exactly.
        described: what the user says of tensors, by their names.
        notes: why moments are kept exactly though they were not to be.
    """

    leaves: Mapping[int, Moment] = field(default_factory=dict)
    described: Mapping[str, Moment] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def seconds(self) -> list[str]:
        """The names that are described as second moments."""
        return [name for name, kind in self.described.items() if kind is Moment.SECOND]

    @classmethod
    def of(
        cls, states: Sequence[OptimizerState], config: MomentsConfig, before: Commit | None = None
    ) -> "MomentKinds":
        """Tell what the moments of all states are.

        Args:
            states: of all parameters in their optimizers.
            config: what is asked for; what it describes takes the place of what `before` does.
            before: the parent, whose description goes on.
        """
        described = _remembered(before) if config.kinds is None else dict(config.kinds)
        moments = {name: Moment(kind) for name, kind in described.items()}
        leaves = dict(pair for one in states for pair in one.moments(moments))
        notes = dict.fromkeys(one.doubt(moments) for one in states) if config.rounds else {}
        mistaken = None if config.kinds is None else _mistaken(states, dict(config.kinds))
        return cls(leaves, moments, tuple(note for note in (*notes, mistaken) if note is not None))

    def to_fields(self) -> dict[str, str]:
        """Return what a commit records: nothing where nothing is described."""
        if not self.described:
            return {}
        return {PROVENANCE: json.dumps(self.described, sort_keys=True, separators=(",", ":"))}


def _mistaken(states: Sequence[OptimizerState], described: Mapping[str, str]) -> str | None:
    """Return a note on names that are described and nowhere to be found, such as misspelt ones."""
    found = {name for one in states for name in one.parameter.names}
    # Counters are not among the names found; they are kept exactly anyway, as such a description says.
    counters = {name for name in described if name in _COUNTERS and described[name] == Moment.EXACT}
    missing = described.keys() - found - counters
    if not missing or not found:
        return None
    there = some_of(sorted(found), _NAMED)
    return f"moments of {some_of(sorted(missing), _NAMED)}: {NO_SUCH_MOMENT}; there are {there}"


def _remembered(before: Commit | None) -> dict[str, str]:
    """Return what a commit, which may be hostile, says of moments."""
    text = dict(before.provenance).get(PROVENANCE) if before is not None else None
    try:
        found = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        return {}
    return {name: kind for name, kind in found.items() if isinstance(kind, str) and kind in set(Moment)}
