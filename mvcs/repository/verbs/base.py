"""What every group of verbs has."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mvcs.repository.restoring import Reading
    from mvcs.repository.session import Session


class Verbs:
    """A group of verbs over an open session."""

    _session: "Session"

    def _reading(self, rev: str, *, exact: bool = False) -> "Reading":
        from mvcs.repository.remote_names import addresses
        from mvcs.repository.restoring import open_reading

        session = self._session
        revision, path = session.resolve_file(rev)
        reading = open_reading(
            session.reader(),
            revision,
            session.progress,
            exact=exact,
            allowance=session.allowance,
            elsewhere=addresses(session),
        )
        return reading if path is None else reading.at(path)
