"""Verbs that reach other stores: remotes, push, fetch, pull, clone."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from functools import partial

from mvcs.addresses import public_address
from mvcs.config import writable_options
from mvcs.errors import ConflictError, MvcsError, NotFoundError, UsageError
from mvcs.history.graph import Revision
from mvcs.local.damaged_packs import damaged_packs, note_damaged
from mvcs.local.journal import Journal
from mvcs.local.place import INCOMING, adopt, named_where
from mvcs.local.records import LocalRecords
from mvcs.local.store_description import Description
from mvcs.local.trust import Trust
from mvcs.refs import HEADS, REMOTES, TAGS, RefRecord
from mvcs.refs.refstore import Change, missing
from mvcs.remotes.fetch import Received, receive
from mvcs.remotes.needed_packs import Remembered
from mvcs.remotes.push import Moved, RefToPush, Terms, ahead_behind, send
from mvcs.remotes.stores import Side
from mvcs.reports.refs import FetchReport, PullReport, PushReport, RefUpdate
from mvcs.reports.values import CheckoutReport
from mvcs.repository.naming.branch_moves import BranchMove
from mvcs.repository.remote_names import add_remote, open_named, open_remote
from mvcs.repository.session import CLONING, Session
from mvcs.repository.upstreams import Upstream, follow, remote_of, upstream_of
from mvcs.repository.worktree.checkout import move_to
from mvcs.repository.worktree.interrupted_moves import InterruptedMove
from mvcs.retention.exact_layers import record_absent
from mvcs.upkeep.leftovers import remove_copies

NEEDS = "needs"


def push(  # noqa: PLR0913 - the verb's own keywords
    session: Session,
    remote: str | None,
    names: list[str] | None,
    *,
    tags: bool = False,
    all_branches: bool = False,
    exact: bool = False,
    force: bool = False,
    verify: bool = False,
    set_upstream: bool = False,
) -> PushReport:
    """Copy what refs need to a remote and move them there; with `set_upstream` branches follow theirs.

    Raises:
        ConflictError: a branch over there has commits that ours lacks.
        NotFoundError: there is no such remote, branch or tag.
    """
    remote = remote or _usual_remote(session, *(names or [])[:1])
    wishes, damaged = _wishes(session, names, tags=tags, all_branches=all_branches)
    there = open_remote(session, remote, make=True)
    here = Side(session.store, session.graph, session.refs)
    session.remove_leftovers()
    # Where it ends by an error, the packs that arrived are there for the next push.
    journal = Journal(session.place.local)

    def arrived(revisions: Iterable[Revision]) -> None:
        journal.moves()
        record_absent(there.store.backend, revisions)

    with _remembered(session) as remembered:
        terms = Terms(
            session.author,
            session.progress,
            arrived,
            exact=exact,
            force=force,
            read_back=verify,
            remembered=remembered,
            announce=partial(journal.copies, remote),
        )
        done = send(here, there, wishes, terms)
    followed = {}
    for wish in wishes:
        if wish.kind == HEADS and wish not in done.refused:
            name = f"{remote}/{wish.name}"
            _track(session, name, wish)
            if set_upstream:
                follow(session, wish.name, name)
                followed[wish.name] = name
    journal.close()
    remove_copies(session.place, remote, there.store.backend)
    damaged |= {wish.name: error for wish, error in done.refused.items()}
    if damaged:
        raise _not_sent(remote, damaged, some=len(wishes) > len(done.refused))
    sent, moved = done.sent, _updates(done.moved)
    return PushReport(remote, moved, sent.packs, sent.bytes, sent.skipped, sent.mended, followed)


def _not_sent(remote: str, damaged: Mapping[str, MvcsError], *, some: bool) -> MvcsError:
    first, rest = next(iter(damaged.values())), "the others were" if some else "nothing was"
    names = ", ".join(f"'{name}'" for name in damaged)
    return type(first)(f"{names} was not sent to '{remote}'; {rest}: {first.message}", hint=first.hint)


@contextlib.contextmanager
def _remembered(session: Session) -> Iterator[Remembered]:
    """Give what this clone remembers of its packs, and keep what is learnt if that can be written."""
    records = LocalRecords(session.place.local)
    needs, damaged = records.read(NEEDS), damaged_packs(session.place.local)
    lines = {
        pack: line for pack, line in needs.items() if isinstance(line, list) and line and _are_texts(line)
    }
    remembered = Remembered(lines, set(damaged))
    known = len(lines)
    try:
        yield remembered
    finally:
        with contextlib.suppress(MvcsError):
            if len(remembered.needs) != known:
                records.update(NEEDS, lambda record: record.update(remembered.needs))
        if remembered.damaged != damaged:
            note_damaged(session.place.local, remembered.damaged, damaged - remembered.damaged)


def _are_texts(line: list[object]) -> bool:
    return all(isinstance(item, str) for item in line)


def _track(session: Session, name: str, wish: RefToPush) -> None:
    before = session.refs.top(REMOTES, name)
    if not isinstance(before, RefRecord) or before.target != wish.record.target:
        change = Change(wish.record.target, wish.record.pack, session.author, "push")
        session.refs.update(REMOTES, name, before, change)


def _wishes(
    session: Session, names: list[str] | None, *, tags: bool, all_branches: bool
) -> tuple[list[RefToPush], dict[str, MvcsError]]:
    """Return what is to be sent; of all branches or tags also what is wrong with those that are damaged."""
    chosen = list(names or ())
    if not chosen and not all_branches and session.branch is not None:
        chosen = [session.branch]
    found = [_wish(session, name) for name in chosen]
    damaged: dict[str, MvcsError] = {}
    for kind in [HEADS] * all_branches + [TAGS] * tags:
        survey = session.refs.survey(kind)
        found += [RefToPush(kind, name, record) for name, record in survey.whole.items()]
        damaged |= survey.damaged
    if not found and not damaged:
        raise UsageError("HEAD is detached and no branch is named", hint="mvcs push REMOTE BRANCH")
    return list({(wish.kind, wish.name): wish for wish in found}.values()), damaged


def _wish(session: Session, name: str) -> RefToPush:
    for kind in (HEADS, TAGS):
        record = session.refs.read(kind, name)
        if record is not None:
            return RefToPush(kind, name, record)
    raise missing(HEADS, name)


def _updates(moved: list[Moved]) -> list[RefUpdate]:
    return [
        RefUpdate(
            item.name,
            item.old.hex() if item.old else None,
            item.new.hex() if item.new else None,
            item.forced,
            "tag" if item.kind == TAGS else "branch",
        )
        for item in moved
    ]


def _usual_remote(session: Session, branch: str | None = None) -> str:
    """Return the remote that a branch, by default the current one, is shared with."""
    return remote_of(session, branch or session.branch)


def fetch(session: Session, remote: str | None, *, verify: bool = False) -> FetchReport:
    """Copy everything a remote has and note where its branches stand; no branch here moves.

    Raises:
        CorruptionError: some of its branches lead to what is missing or damaged, and were left out, or packs
            are missing or damaged here and could not be had.
    """
    remote = remote or _usual_remote(session)
    report, received = _fetched(session, remote, open_remote(session, remote, make=False), verify=verify)
    if received.problem is not None:
        raise received.problem
    return report


def _fetched(
    session: Session, remote: str, there: Side, *, verify: bool = False
) -> tuple[FetchReport, Received]:
    here = Side(session.store, session.graph, session.refs)
    arrived = partial(record_absent, session.place.backend)
    local = session.place.local
    if local is None:
        raise NotFoundError("a bare store has no place for what is fetched", hint="clone it, and fetch there")
    with _remembered(session) as remembered:
        allow = partial(session.allowance.check_pack, folder=local)
        terms = Terms(
            session.author,
            session.progress,
            arrived,
            read_back=verify,
            remembered=remembered,
            allow=allow,
        )
        received = receive(here, there, remote, terms, local / INCOMING)
    for revision in received.sent.revisions:
        session.indexing.record(session.graph.get(revision.id))
    sent = received.sent
    report = FetchReport(remote, _updates(received.moved), sent.packs, sent.bytes, sent.mended)
    return report, received


def pull(session: Session, remote: str | None, branch: str | None) -> PullReport:
    """Fetch, then move the current branch forward when nothing is lost by it, and then its files and HEAD.

    Raises:
        CorruptionError: the branch over there cannot be taken; or another, and this one was moved.
        ConflictError: both sides have commits the other lacks.
    """
    current = session.branch
    if current is None:
        raise UsageError("HEAD is detached", hint="switch to a branch first")
    wanted = _pulled(session, current, remote, branch)
    there = open_remote(session, wanted.remote, make=False)
    report, received = _fetched(session, wanted.remote, there)
    theirs = session.refs.read(REMOTES, wanted.name)
    if received.problem is not None and (theirs is None or wanted.branch in received.refused):
        raise received.problem
    if theirs is None or theirs.target is None:
        raise NotFoundError(
            f"'{wanted.remote}' has no branch '{wanted.branch}'",
            hint=f"it has: {_branches_of(session, wanted.remote)}",
        )
    done = _forwarded(session, current, wanted, session.graph.load(theirs.target, theirs.pack), report)
    if received.problem is not None:
        raise received.problem
    return done


def _pulled(session: Session, current: str, remote: str | None, branch: str | None) -> Upstream:
    """Return what the current branch is to be moved to."""
    upstream = upstream_of(session, current)
    if upstream is None or (remote is not None and remote != upstream.remote):
        upstream = Upstream(remote or _usual_remote(session), current)
    return upstream if branch is None else Upstream(upstream.remote, branch)


def _forwarded(
    session: Session, branch: str, upstream: Upstream, theirs: Revision, report: FetchReport
) -> PullReport:
    """Move a branch to a commit of its remote, and then files and HEAD when HEAD is on it."""
    record = session.refs.newest(HEADS, branch)
    ours = session.graph.load(record.target, record.pack) if record and record.target else None
    followed = branch == session.branch and session.place.top is not None
    if ours is not None and session.graph.is_ancestor(theirs.id, ours):
        stopped = followed and InterruptedMove.of(session, ours)
        files = move_to(session, ours, branch, exact=False, force=False) if stopped else None
        return PullReport(report, files, fast_forward=False)
    if ours is not None and not session.graph.is_ancestor(ours.id, theirs):
        raise _diverged(session, branch, upstream, ours, theirs)
    going = BranchMove(session, branch, record, ours, theirs, f"pull: {upstream.remote}")
    if followed:
        return PullReport(report, going.with_files(), fast_forward=True)
    going.alone()
    return PullReport(report, None, fast_forward=True)


def _diverged(
    session: Session, branch: str, upstream: Upstream, ours: Revision, theirs: Revision
) -> ConflictError:
    ahead, behind = ahead_behind(session.graph, ours, theirs)
    return ConflictError(
        f"'{branch}' and '{upstream.name}' have diverged: {ahead} and {behind} commits that the other lacks",
        hint=f"to take theirs and keep yours beside: 'mvcs branch my-{branch}', then "
        f"'mvcs reset --hard {upstream.name}'; to put yours in the place of theirs: "
        f"'mvcs push --force {upstream.remote} {branch}'",
    )


def _branches_of(session: Session, remote: str) -> str:
    start = f"{remote}/"
    return (
        ", ".join(name[len(start) :] for name in session.refs.survey(REMOTES).whole if name.startswith(start))
        or "none"
    )


def name_source(
    session: Session, remote: str, url: str, options: Mapping[str, object], *, plain: bool = False
) -> None:
    """Remember where a clone comes from, in the place of what an interrupted clone remembered.

    What is secret, or may be, is used by the clone and not remembered.
    """
    for key in session.place.config.section(f"remote.{remote}"):
        session.place.config.unset(f"remote.{remote}.{key}")
    known, shared = public_address(url), writable_options(options, plain=plain)
    add_remote(session, remote, known, shared, plain=plain)
    left_out = [*(["the credentials in its URL"] if known != url else []), *(set(options) - set(shared))]
    if left_out:
        session.warn(
            f"remote '{remote}' was named without {', '.join(sorted(left_out))}, which may be secret: "
            "what fetches from it later needs them from the environment or the cloud's own configuration"
        )


def fill_clone(
    session: Session, remote: str, url: str, options: Mapping[str, object]
) -> CheckoutReport | None:
    """Fetch everything into a clone that has no HEAD yet and stand on the remote's default branch."""
    _, received = _fetched(session, remote, open_named(session, remote, url, options, make=False))
    start = f"{remote}/"
    for name, record in session.refs.survey(REMOTES).whole.items():
        before = session.refs.newest(HEADS, name[len(start) :])
        if name.startswith(start) and (before is None or before.target != record.target):
            change = Change(record.target, record.pack, session.author, f"{CLONING}{remote}")
            session.refs.update(HEADS, name[len(start) :], before, change)
    session.set_head(f"ref: {session.place.description.default_branch}")
    head = session.head()
    report = None if head is None else move_to(session, head, session.branch, exact=False, force=False)
    if received.problem is not None:
        raise received.problem
    return report


def described(url: str, options: Mapping[str, object] | None, trust: Trust) -> Description:
    """Return what the store at a URL says of itself.

    Raises:
        NotFoundError: there is no store.
    """
    backend = trust.open(adopt(url, trust), options)
    try:
        return Description.read(backend, url)
    except NotFoundError as error:
        raise NotFoundError(f"'{url}' holds no mvcs store", hint=named_where(url)) from error
