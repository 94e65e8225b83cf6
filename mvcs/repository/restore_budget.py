"""What restoring a commit may take once it is stored anew, and what it takes with the store at hand."""

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

from mvcs.config import Config
from mvcs.errors import MvcsError, StorageError, UsageError
from mvcs.history import Revision
from mvcs.local import MeasuredRates, Place, known_rates, remember_rates
from mvcs.progress import SILENT
from mvcs.refs import now_microseconds
from mvcs.reports import RestoreFigures
from mvcs.store import ObjectStore, RestoreLimits, RestoreRates

_DEEPEST, _ANY_COST = 1000, 1e6  # where nobody restores
_LEAST_SECONDS, _MOST_SECONDS = 1e-3, 1e3  # as of the setting
_PART = re.compile(r"([0-9]{1,4}(?:\.[0-9]{1,6})?)(x|s)")
_FORMS = "{0}s for seconds a GB, {0}x for the cost of snapshots, --max-depth {0} for deltas"


@dataclass(frozen=True)
class RestoreBudget:
    """Limits that are asked for; None where the settings tell.

    Attributes:
        max_depth: deltas between a chunk and its snapshot.
        max_cost: how many times the cost of a snapshot a restore may cost, by bytes decoded a kind.
        max_seconds: that restoring a GB of values is estimated to take.
    """

    max_depth: int | None = None
    max_cost: float | None = None
    max_seconds: float | None = None

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            UsageError: one is no limit.
        """
        if self.max_depth is not None and not 0 <= self.max_depth <= _DEEPEST:
            raise UsageError("a chain has 0 to 1000 deltas")
        if self.max_cost is not None and not 1 <= self.max_cost <= _ANY_COST:
            raise UsageError("a restore costs at least what a snapshot costs: 1 or more")
        if self.max_seconds is not None and not _LEAST_SECONDS <= self.max_seconds <= _MOST_SECONDS:
            raise UsageError("a restore takes 0.001 to 1000 seconds a GB")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a budget as a user types it, such as `4x,2s`.

        Raises:
            UsageError: it is none.
        """
        found: dict[str, float] = {}
        for part in text.replace(" ", "").split(","):
            match = _PART.fullmatch(part)
            if match is None or match[2] in found:
                hint = f"say {_FORMS.format(part if part.isdecimal() else 2)}"
                raise UsageError(f"'{text}' is no budget of restores", hint=hint)
            found[match[2]] = float(match[1])
        return cls(None, found.get("x"), found.get("s"))

    def joined(self, other: Self) -> "RestoreBudget":
        """Return the limits of both.

        Raises:
            UsageError: both name the same.
        """
        pairs = zip(self._limits, other._limits, strict=True)
        if any(one is not None and two is not None for one, two in pairs):
            raise UsageError("the budget and another option limit the same")
        return RestoreBudget(
            self.max_depth if other.max_depth is None else other.max_depth,
            self.max_cost if other.max_cost is None else other.max_cost,
            self.max_seconds if other.max_seconds is None else other.max_seconds,
        )

    @property
    def _limits(self) -> tuple[float | None, ...]:
        return self.max_depth, self.max_cost, self.max_seconds

    def limits(
        self, config: Config, rates: Callable[[], RestoreRates | None], *, for_archive: bool
    ) -> RestoreLimits:
        """Return the limits, with those of the settings where nothing was asked for.

        Args:
            config: the settings.
            rates: gives how quick this machine is; asked where seconds are limited.
            for_archive: nothing but what was asked for is a limit.

        Raises:
            UsageError: an archive is asked for that reads few bytes.
        """
        if for_archive and self.max_cost is not None:
            raise UsageError(
                "an archive goes without a limit of cost: its restores may take as long as they do"
            )
        usual = RestoreLimits(_DEEPEST, _ANY_COST) if for_archive else configured_limits(config, rates)
        seconds = usual.max_seconds if self.max_seconds is None else self.max_seconds
        return RestoreLimits(
            usual.max_depth if self.max_depth is None else self.max_depth,
            usual.max_cost if self.max_cost is None else self.max_cost,
            seconds,
            None if seconds is None else usual.rates or rates(),
        )


def configured_limits(config: Config, rates: Callable[[], RestoreRates | None]) -> RestoreLimits:
    """Return how long chains may grow by the settings; `rates` is asked where these limit seconds."""
    seconds = config.number("compaction.max_restore_seconds") or None
    return RestoreLimits(
        config.integer("compaction.max_depth"),
        config.number("restore.max_cost"),
        seconds,
        None if seconds is None else rates(),
    )


def remembered_rates(place: Place) -> RestoreRates | None:
    """Return what was measured once; None where nothing was."""
    found = known_rates(place.local, place.backend.url)
    return None if found is None else found.rates


def rates_of(place: Place, revision: Revision | None, *, anew: bool) -> MeasuredRates:
    """Return what was measured; measure now, by restoring a part of a commit, where nothing was.

    Args:
        place: the repository.
        revision: the commit; None where there is none.
        anew: measure in any case.
    """
    from mvcs.restore import measure_rates, open_reading

    known = None if anew else known_rates(place.local, place.backend.url)
    if known is not None:
        return known
    reading = None
    with suppress(MvcsError):
        store = ObjectStore(place.backend, place.memory)
        reading = None if revision is None else open_reading(store, revision, SILENT)
    found = MeasuredRates(measure_rates(place.backend, reading), now_microseconds())
    with suppress(StorageError):  # a disk that is full keeps nobody from looking
        remember_rates(place.local, place.backend.url, found)
    return found


def restore_figures(place: Place, revision: Revision) -> RestoreFigures:
    """Say what restoring all values of a commit takes; nothing is measured for it.

    Raises:
        NotFoundError: something of it is nowhere in the store.
        CorruptionError: what describes it is damaged.
    """
    from mvcs.restore import open_reading, planned, reads_of_files, reads_of_state
    from mvcs.store import UnreadStore

    store = UnreadStore(place.backend, place.memory)
    reading = open_reading(store, revision, SILENT)
    tree = reading.tree
    reads = reads_of_state(tree, None, None) if tree.files is None else reads_of_files(tree, tree.files)
    depth = planned(store, reading, reads).depth
    cost, rates = store.cost, remembered_rates(place)
    seconds = None if rates is None else cost.seconds(rates, reads.raw_bytes)
    return RestoreFigures(cost.requests, cost.stored_bytes, depth, seconds)
