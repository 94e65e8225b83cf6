"""What a compaction did, or would do."""

from dataclasses import dataclass, field

from mvcs.reports.report import Report


@dataclass(frozen=True)
class CompactReport(Report):
    """What storing commits anew did, or would do.

    Attributes:
        executed: whether refs lead to it.
        commits: commits that refs lead to.
        chosen: how many of them were to be stored anew.
        ended: commits that another pack ends now.
        encoded: chunks that were encoded anew; all others were taken over as they were, or stayed.
        packs: packs that were written.
        bytes: their bytes.
        before: bytes of the packs that value layers needed before.
        after: bytes of those that they need now.
        refs: branches, tags and known branches of remotes that got a record.
        notes: what is worth knowing.
        store_bytes: of packs of values and of exact layers: before, afterwards, and once `gc` was there.
        sole_writer: whether nothing says that others write to the store, so that `gc` need not wait.
    """

    executed: bool
    commits: int
    chosen: int
    ended: int
    encoded: int
    packs: int
    bytes: int
    before: int
    after: int
    refs: list[str]
    notes: list[str] = field(default_factory=list)
    store_bytes: dict[str, list[int]] = field(default_factory=dict)
    sole_writer: bool = False
