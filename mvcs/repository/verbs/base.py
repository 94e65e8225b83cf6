"""What every group of verbs has."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mvcs.refs import RefRecord
    from mvcs.repository.session import Session
    from mvcs.restore import Reading


class Verbs:
    """A group of verbs over an open session."""

    _session: "Session"

    def _reading(self, rev: str, *, exact: bool = False, tell: bool = True) -> "Reading":
        from mvcs.repository.opened_commit import open_for

        revision, path = self._session.resolver.resolve_file(rev)
        reading = open_for(self._session, revision, exact=exact, rev=rev, tell=tell)
        return reading if path is None else reading.at(path)


def target_text(record: "RefRecord") -> str:
    """Return the hexadecimal id of the commit that a record names; empty for none."""
    return record.target.hex() if record.target else ""
