"""Room for commits in a store that has a quota: made before the verb, while nothing leans on what may go."""

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar, cast

from mvcs.repository.quota import NoRoomError, taken_by
from mvcs.repository.verbs.base import Verbs

if TYPE_CHECKING:
    from mvcs.repository.session import Session

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")
Verb = TypeVar("Verb", bound="Roomy")


class Roomy(Verbs):
    """Verbs that need room."""

    def _make_room(self) -> None:
        """Let go what rules let go where the next commit may not fit; there is no harm where it does.

        Raises:
            StorageError: the store has passed its quota all the same.
        """
        session = self._session
        if session.quota.limit is not None and session.quota.is_near(taken_by(session.head())):
            self._let_go(session)
            if session.quota.is_passed():
                raise session.quota.refusal(session.graph, session.refs)

    def _let_go(self, session: "Session") -> None:
        from mvcs.repository.keeping.letting_go import let_go

        let_go(session)
        session.quota.look()


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
            self._let_go(self._session)
            if self._session.quota.is_near(error.more):
                raise
        return verb(self, *args, **named)

    return cast("Callable[Concatenate[Verb, Arguments], Answer]", run)
