"""Where a clone comes from: looked at, remembered, and copied."""

from mvcs.addresses import public_address
from mvcs.config import writable_options
from mvcs.errors import NotFoundError, not_found
from mvcs.local import Description, Trust, adopt, named_where
from mvcs.refs import HEADS, REMOTES, TAGS, RefChange, RefStore
from mvcs.repository.session import CLONING, Session
from mvcs.repository.sharing.exchange import incoming
from mvcs.repository.sharing.remote_stores import RemoteStore, check_new, forget_settings
from mvcs.repository.worktree.checkout import move_to


def describe(source: RemoteStore, trust: Trust, wanted: str | None = None) -> Description:
    """Return what a store says of itself.

    Raises:
        NotFoundError: there is no store, or no branch or tag of the wanted name in it.
    """
    backend = trust.open(adopt(source.url, trust), source.options)
    try:
        description = Description.read(backend, source.url)
    except NotFoundError as error:
        raise NotFoundError(f"'{source.url}' holds no mvcs store", hint=named_where(source.url)) from error
    surveys = [RefStore(backend).survey(kind) for kind in (HEADS, TAGS) if wanted is not None]
    known = [name for survey in surveys for name in (*survey.whole, *survey.damaged)]
    if wanted is not None and wanted not in known:
        otherwise = "nothing was made; without -b the clone stands on the default branch"
        raise not_found(f"'{source.url}' has no branch or tag named '{wanted}'", wanted, known, otherwise)
    return description


def remember(session: Session, source: RemoteStore, *, plain: bool) -> None:
    """Remember where a clone comes from, in the place of what an interrupted clone remembered.

    What is secret, or may be, is used by the clone and not remembered.
    """
    forget_settings(session, source.name)
    known, shared = public_address(source.url), writable_options(source.options, plain=plain)
    check_new(session, source.name)
    RemoteStore(source.name, known, shared).connect(session, plain=plain)
    credentials = ["the credentials in its URL"] if known != source.url else []
    left_out = [*credentials, *(set(source.options) - set(shared))]
    if left_out:
        session.warn(
            f"remote '{source.name}' was named without {', '.join(sorted(left_out))}, which may be secret: "
            "what fetches from it later needs them from the environment or the cloud's own configuration"
        )


def fill(session: Session, source: RemoteStore, wanted: str | None = None) -> None:
    """Fetch everything into a clone that has no HEAD yet and stand on a branch, by default the remote's own.

    HEAD is detached where a tag is wanted.

    Raises:
        NotFoundError: what is wanted did not arrive; HEAD stands on the remote's own branch all the same.
    """
    _, received = incoming(session, source)
    start = f"{source.name}/"
    for name, record in session.refs.survey(REMOTES).whole.items():
        before = session.refs.newest(HEADS, name[len(start) :])
        if name.startswith(start) and (before is None or before.target != record.target):
            change = RefChange(record.target, session.author, f"{CLONING}{source.name}")
            session.refs.update(HEADS, name[len(start) :], before, change)
    stand, missing = f"ref: {session.place.description.default_branch}", None
    if wanted is not None and session.branch_record(wanted):
        stand = f"ref: {wanted}"
    elif wanted is not None:
        tag = session.refs.survey(TAGS).whole.get(wanted)
        missing = session.refs.missing(HEADS, wanted) if tag is None or tag.target is None else None
        stand = stand if tag is None or tag.target is None else tag.target.hex()
    session.set_head(stand, f"{CLONING}{source.name}")
    head = session.head()
    if head is not None:
        move_to(session, head, session.branch, exact=False, force=False)
    if problem := received.problem or missing:
        again = "'mvcs pull' in the new folder tries again"
        problem.hint = f"{problem.hint}; {again}" if problem.hint else again
        raise problem
