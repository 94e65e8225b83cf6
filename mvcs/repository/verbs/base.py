"""What every group of verbs has, and room for commits in a store that has a quota.

Room is made before the verb, while nothing leans on what may go.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar, cast

from mvcs.errors import MvcsError
from mvcs.repository.quota import NoRoomError, taken_by

if TYPE_CHECKING:
    from mvcs.refs import RefRecord
    from mvcs.repository.keeping.retention_run import MadeRoom
    from mvcs.repository.session import Session
    from mvcs.restore import Reading

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")
Verb = TypeVar("Verb", bound="Roomy")


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


class Roomy(Verbs):
    """Verbs that need room."""

    def _make_room(self) -> None:
        """Let go what may go where the next commit may not fit; there is no harm where it does.

        Raises:
            StorageError: the store has passed its quota all the same.
        """
        session, more = self._session, self._like_the_last()
        if session.quota.is_near(more):
            made = self._made_room(more)
            if session.quota.is_passed():
                raise session.quota.refusal(session.graph, session.refs, waiting=made.waiting)

    def _like_the_last(self) -> int:
        """Return the bytes that the last commit took; 0 on a damaged branch, of which the verb tells."""
        if self._session.quota.limit is not None:
            with suppress(MvcsError):
                return taken_by(self._session.head())
        return 0

    def _made_room(self, more: int) -> "MadeRoom":
        from mvcs.repository.keeping.retention_run import MadeRoom

        made = MadeRoom(self._session, more)
        made.make()
        return made


def with_room(
    verb: Callable[Concatenate[Verb, Arguments], Answer],
) -> Callable[Concatenate[Verb, Arguments], Answer]:
    """Make room before a verb that commits; try once more where its commit took more than the last one."""

    @wraps(verb)
    def run(self: Verb, *args: Arguments.args, **named: Arguments.kwargs) -> Answer:
        self._make_room()
        try:
            return verb(self, *args, **named)
        except NoRoomError as error:
            made, session = self._made_room(error.more), self._session
            if not made.suffices:
                raise session.quota.refusal(session.graph, session.refs, error.more, made.waiting) from error
        return verb(self, *args, **named)

    return cast("Callable[Concatenate[Verb, Arguments], Answer]", run)
