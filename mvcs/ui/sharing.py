"""What a push or a fetch did."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mvcs.ui.sizes import count, size
from mvcs.ui.text import printable

if TYPE_CHECKING:
    from mvcs.repository.ref_reports import FetchReport, PushReport, RefUpdate


def pushed(report: "PushReport") -> list[str]:
    """Return what a push sent and which names it moved."""
    skipped = f", {count(report.packs_skipped, 'pack')} already there" if report.packs_skipped else ""
    sent = f"sent {count(report.packs_sent, 'pack')}, {size(report.bytes_sent)}{skipped}"
    mended = f"{count(report.packs_mended, 'pack')} missing or damaged over there before"
    return [f"To {printable(report.remote)}: {sent}", *_changes(report.updated, report.packs_mended, mended)]


def fetched(report: "FetchReport") -> list[str]:
    """Return what a fetch brought and which names it moved."""
    received = f"received {count(report.packs_received, 'pack')}, {size(report.bytes_received)}"
    mended = f"{count(report.packs_mended, 'pack')} missing or damaged here before"
    return [
        f"From {printable(report.remote)}: {received}",
        *_changes(report.updated, report.packs_mended, mended),
    ]


def _changes(updated: Sequence["RefUpdate"], mended: int, text: str) -> list[str]:
    return [f"  mended {text}", *(updates(updated) if updated else [])] if mended else updates(updated)


def updates(updated: Sequence["RefUpdate"]) -> list[str]:
    """Return one line for each name that moved."""
    return [f"  {_move(update):<28} {printable(update.name)}" for update in updated] or [
        "  everything up to date"
    ]


def _move(update: "RefUpdate") -> str:
    if update.new is None:
        return f"{(update.old or '')[:12]} deleted"
    if update.old is None:
        return f"{update.new[:12]} new"
    return f"{update.old[:12]}{' + ' if update.forced else ' .. '}{update.new[:12]}"
