"""Revisions: the names people type for commits, resolved to commits.

`main`, `main~2`, `HEAD^`, `HEAD^2`, `@`, a tag, `origin/main`, an id prefix, `main@{3}`, `main@1200`,
`step:1200`, `best:val_loss`, `best:max:score`; the last three look at HEAD's ancestors, `main@1200` at those
of `main`. `REV:FILE` names a file of one.
"""

import math
import re
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from typing import Literal

from mvcs.errors import MvcsError, NotFoundError, UsageError, some_of
from mvcs.history.commit_graph import Graph, Revision
from mvcs.objects import MIN_PREFIX, ObjectId, is_prefix, is_whole, short_id
from mvcs.refs import HEADS, REMOTES, TAGS, DamagedRecord, RefRecord, RefStore

_NAMED = 10
_SUFFIX = re.compile(r"(?P<base>.+?)(?P<steps>(?:[~^][0-9]{0,9})*)", re.DOTALL)
_STEP = re.compile(r"([~^])([0-9]*)")
_NAMED_STEP = re.compile(r"(?P<name>.+)@(?P<step>[0-9]{1,19})", re.DOTALL)
_REFLOG = re.compile(r"(?P<name>.*)@\{(?P<back>[0-9]{1,9})\}", re.DOTALL)
_FILE = re.compile(r"(?P<rev>(?:step:|best:(?:(?:min|max):)?+)?+[^:]*):(?P<file>.*)", re.DOTALL)
_RANGE = re.compile(r"(?P<left>.*?)\.{2,3}(?P<right>(?![./]).*)", re.DOTALL)
MAX_BACK = 10_000_000
_WORDS, _SLIP = ("step", "best"), 0.7  # a letter too many, too few or swapped
Goal = Literal["min", "max"]
# What a word is not certain to say in every field it is used in (score, distance, time) stands in neither.
_UP = re.compile(
    r"accuracy|acc|auc|auroc|auprc|bleu|chrf|dice|f1|iou|map|mcc|meteor|miou|mrr|ndcg|pearson|precision|psnr|r2"
    r"|recall|rewards?|rougel?|spearman|ssim"
)
_DOWN = re.compile(
    r"cer|crps|eer|err|errors?|excess|fid|loss(es)?|lpips|mae|mape|mse|nll|perplexity|ppl|rmse|wer"
)
# What turns a word round, as in neg_mean_squared_error and 1-accuracy.
_TURNS = re.compile(r"neg|negative|minus|inv|inverse")


def split_revision_file(text: str) -> tuple[str, str] | None:
    """Split `REV:FILE` into its revision and the path in it; None where a revision stands alone.

    A goal behind `best:` belongs to the revision; the name of the metric ends at the next colon.
    """
    match = _FILE.fullmatch(text)
    return None if match is None else (match["rev"], match["file"])


@dataclass(frozen=True)
class Resolver:
    """What resolving needs.

    Attributes:
        graph: the commits.
        refs: branches and tags.
        head: the commit HEAD stands on, or None in a repository without commits.
        branch: the branch HEAD is on, or None when it is detached.
        goals: metric name to "min" or "max", for `best:`; what it lacks goes by what commits recorded, then
            by the words of its name.
        later: metrics that notes add to a commit.
        tell: is told what a person should know of how a revision was found.
        trail: yields where HEAD has been, newest first.
    """

    graph: Graph
    refs: RefStore
    head: Callable[[], Revision | None]
    branch: str | None
    goals: Mapping[str, str]
    later: Callable[[ObjectId], Mapping[str, float]]
    tell: Callable[[str], None]
    trail: Callable[[], Iterator[RefRecord | DamagedRecord]]

    def resolve(self, text: str) -> Revision:
        """Return the commit that a revision names.

        Raises:
            NotFoundError: nothing has that name.
            UsageError: it names more than one commit, or is not a revision.
        """
        match = _SUFFIX.fullmatch(text)
        if match is None:
            raise UsageError("an empty revision names no commit", hint="try 'HEAD' or a branch")
        revision = self._base(match["base"], text)
        for sign, count in _STEP.findall(match["steps"]):
            revision = self._back(revision, sign, int(count or 1), text)
        return revision

    def resolve_file(self, text: str) -> tuple[Revision, str | None]:
        """Return the commit that `REV` or `REV:FILE` names, and the file's path, or None.

        Whether the commit has such a file is not looked at.

        Raises:
            NotFoundError: no commit has that name.
            UsageError: it names more than one commit, or is not a revision, or no file follows the colon.
        """
        found = split_revision_file(text)
        is_metric = text.startswith("best:") and self._is_metric(text)
        if text.startswith("best:") and not is_metric and self._ref("best") is not None:
            found = "best", text.removeprefix("best:")
        if found is None or is_metric:
            return self.resolve(text), None
        rev, path = found[0], found[1].rstrip("/")
        if not rev or not path:
            raise UsageError(f"'{text}' is not of the form REV:FILE", hint="such as HEAD:model.safetensors")
        self._refuse_slip(text)
        return self.resolve(rev), path

    def _refuse_slip(self, text: str) -> None:
        """Say what was meant where `step:` or `best:` was typed with a slip, and no ref is called so."""
        word, _, rest = text.partition(":")
        near = get_close_matches(word, _WORDS, 1, _SLIP) if rest and word not in _WORDS else []
        if near and self._ref(word) is None:
            raise NotFoundError(f"no revision named '{text}'", hint=f"did you mean '{near[0]}:{rest}'?")

    def _is_metric(self, text: str) -> bool:
        """Tell whether all of what stands behind `best:` is a metric, whose name may hold a colon."""
        match = _SUFFIX.fullmatch(text)
        _, name = _told_goal((match["base"] if match else text)[5:])
        line = self.graph.walk([self._require_head()])
        return any(self._metric(revision, name) is not None for revision in line)

    def _back(self, revision: Revision, sign: str, count: int, text: str) -> Revision:
        if sign == "~" or count == 0:
            steps = count if sign == "~" else 0
            found = next(islice(self.graph.first_parents(revision), min(steps, MAX_BACK), None), None)
        else:
            parents = self.graph.parents(revision)
            found = parents[count - 1] if count <= len(parents) else None
        if found is None:
            raise NotFoundError(
                f"'{text}' goes back further than the history", hint="'mvcs log' shows how far it goes"
            )
        return found

    def _base(self, text: str, whole: str) -> Revision:
        if text in ("HEAD", "@"):
            return self._require_head()
        if text.startswith("step:"):
            return self._step(text[5:])
        if text.startswith("best:"):
            return self._best(text[5:])
        if reflog := _REFLOG.fullmatch(text):
            return self._reflog(reflog["name"] or self.branch or "HEAD", int(reflog["back"]), text)
        self._refuse_slip(whole)
        _refuse_more_than_one_commit(whole)
        # A name from elsewhere must not stand in for the one commit that has this id.
        record = None if is_whole(text) else self._ref(text)
        if record is None:
            return self._by_step(text) or self._by_prefix(text)
        self._tell_of_ids(text)
        return self._load(record)

    def _tell_of_ids(self, name: str) -> None:
        """Say that a name could have been meant as the beginning of an id."""
        if not is_prefix(name):
            return
        found: Collection[ObjectId] = ()
        with suppress(MvcsError):  # what is damaged is reported by what needs it
            found = self.graph.manifests.starting(name.lower())
        if found:
            meant = ", ".join(sorted(short_id(identifier) for identifier in found)[:4])
            self.tell(f"'{name}' was taken as the name of a branch or tag; ids begin so as well: {meant}")

    def _ref(self, name: str) -> RefRecord | None:
        try:
            found = self._named(name)
        except UsageError:
            return None
        # Tags come from every remote: one of them must not stand for another's branch.
        if len({record.target for record in found}) > 1:
            raise UsageError(
                f"'{name}' is a tag and a branch of another store, and they differ",
                hint=f"say which: 'tags/{name}' or 'remotes/{name}'; "
                f"or remove the tag: 'mvcs tag -d {shlex.quote(name)}'",
            )
        return found[0] if found else None

    def _named(self, name: str) -> list[RefRecord]:
        """Return the branch of a name; else its tag and the branch of a remote; else what its kind tells."""
        branch = self.refs.read(HEADS, name)
        if branch is not None:
            return [branch]
        others = [self.refs.read(TAGS, name), self.refs.read(REMOTES, name) if "/" in name else None]
        kind, _, rest = name.removeprefix("refs/").partition("/")
        if not any(others) and rest and kind in (HEADS, TAGS, REMOTES):
            others = [self.refs.read(kind, rest)]
        return [record for record in others if record is not None]

    def _load(self, record: RefRecord) -> Revision:
        if record.target is None:
            raise NotFoundError("this record says that the ref was deleted")
        try:
            return self.graph.load(record.target)
        except NotFoundError as error:
            raise NotFoundError(
                f"the ref points at {short_id(record.target)}, which is not in the store: {error.message}",
                hint="run 'mvcs fsck'; 'mvcs reflog' shows where the ref pointed before",
            ) from error

    def _require_head(self) -> Revision:
        head = self.head()
        if head is None:
            raise NotFoundError(
                "HEAD has no commit yet", hint="make the first one with 'mvcs commit FILE -m MESSAGE'"
            )
        return head

    def _reflog(self, name: str, back: int, text: str) -> Revision:
        records = self.trail() if name == "HEAD" else self.refs.row(HEADS, name)
        record = next(islice(records, back, None), None)
        if isinstance(record, DamagedRecord):
            raise record.error
        if record is None:
            raise NotFoundError(
                f"the reflog of '{name}' does not reach back to '{text}'", hint=f"try 'mvcs reflog {name}'"
            )
        return self._load(record)

    def _step(self, text: str) -> Revision:
        if not re.fullmatch(r"-?[0-9]{1,19}", text):
            raise UsageError(f"'step:{text}' needs a whole number after the colon")
        return self._with_step(self._require_head(), int(text), "HEAD")

    def _by_step(self, text: str) -> Revision | None:
        """Return the commit that `main@1200` names; None where the text names no branch, tag or HEAD so."""
        match = _NAMED_STEP.fullmatch(text)
        if match is None:
            return None
        name = match["name"]
        if name in ("HEAD", "@"):
            return self._with_step(self._require_head(), int(match["step"]), name)
        record = self._ref(name)
        return None if record is None else self._with_step(self._load(record), int(match["step"]), name)

    def _with_step(self, start: Revision, wanted: int, name: str) -> Revision:
        steps = set[int]()
        for revision in self.graph.walk([start]):
            if revision.commit.step == wanted:
                return revision
            if revision.commit.step is not None:
                steps.add(revision.commit.step)
        around = [max((step for step in steps if step < wanted), default=None)]
        around += [min((step for step in steps if step > wanted), default=None)]
        near = " and ".join(f"step:{step}" for step in around if step is not None)
        raise NotFoundError(
            f"no commit behind {name} has step {wanted}",
            hint=f"nearest is {near}; 'mvcs log' shows the steps there are"
            if near
            else "no commit there has a step; 'mvcs log' shows what there is",
        )

    def _best(self, text: str) -> Revision:
        told, name = _told_goal(text)
        values = [
            (value, revision)
            for revision in self.graph.walk([self._require_head()])
            if (value := self._metric(revision, name)) is not None
        ]
        if not values:
            raise NotFoundError(f"no commit behind HEAD has the metric '{name}'", hint=self._metrics_there())
        goal = told or self._goal(name, [revision for _, revision in values])
        value, best = (max if goal == "max" else min)(values, key=lambda pair: pair[0])
        extreme = "highest" if goal == "max" else "lowest"
        among = f"the {extreme} {name} among HEAD's ancestors"
        self.tell(f"best:{text} is {among}, {value:.6g}, of commit {short_id(best.id)}")
        return best

    def _metrics_there(self) -> str:
        commits = self.graph.walk([self._require_head()])
        names = {name for found in commits for name in (*dict(found.commit.metrics), *self.later(found.id))}
        if not names:
            return "none has a metric: 'mvcs note REV --metric NAME=VALUE' adds one"
        return f"there are {some_of(sorted(names), _NAMED)}"

    def _metric(self, revision: Revision, name: str) -> float | None:
        value = self.later(revision.id).get(name, revision.commit.metric(name))
        return None if value is None or math.isnan(value) else value

    def _goal(self, name: str, measured: Collection[Revision]) -> str:
        if goal := self.goals.get(name):
            return goal
        recorded = {goal for revision in measured if (goal := revision.commit.goal(name))}
        if len(recorded) > 1:
            raise UsageError(
                f"a low '{name}' is better at some commits behind HEAD, and a high one at others",
                hint=f"best:min:{name} or best:max:{name} tells which is meant",
            )
        goal = next(iter(recorded), None) or goal_of(name)
        if goal is None:
            raise UsageError(
                f"whether a high or a low '{name}' is better, its name does not tell",
                hint=f"'mvcs config metric.{name}.goal max' tells (or min), and so does best:max:{name}",
            )
        return goal

    def _by_prefix(self, text: str) -> Revision:
        if not is_prefix(text):
            too_short = re.fullmatch(r"[0-9a-f]+", text)
            hint = f"ids need at least {MIN_PREFIX} digits" if too_short else self._instead(text)
            there = [name for name in self.refs.survey(REMOTES).whole if name.partition("/")[2] == text]
            if there:
                hint = f"'mvcs switch {text}' makes a branch of it from '{there[0]}'"
            raise NotFoundError(
                f"no revision named '{text}'",
                hint=hint or self._near(text) + "'mvcs branch', 'mvcs tag' and 'mvcs log' show names and ids",
            )
        found = self.graph.manifests.starting(text.lower())
        if len(found) > 1:
            names = ", ".join(sorted(short_id(identifier) for identifier in found)[:4])
            raise UsageError(
                f"'{text}' abbreviates more than one commit",
                hint=f"type more digits; it may be one of {names}",
            )
        if found:
            return self.graph.load(found[0])
        raise NotFoundError(f"no commit's id starts with '{text}'", hint="'mvcs log' shows ids")

    def _near(self, text: str) -> str:
        """Return the name that was meant, as a question, where one is near."""
        known = [name for kind in (HEADS, TAGS, REMOTES) for name in self.refs.listed(kind)]
        near = next(filter(self._is_there, get_close_matches(text, known)), None)
        return f"did you mean '{near}'? " if near else ""

    def _is_there(self, name: str) -> bool:
        """Tell whether a name that has records is that of something; it may have been deleted."""
        try:
            return bool(self._named(name))
        except MvcsError:
            return False

    def _instead(self, text: str) -> str | None:
        """Return what to type for a name that git gives to a commit."""
        if text == "ORIG_HEAD":
            return "'HEAD@{1}' is where the branch was before"
        if text == "FETCH_HEAD":
            return "'origin/main' is what was fetched of main"
        return None


def _told_goal(text: str) -> tuple[str | None, str]:
    """Split what stands behind `best:` into a goal, where it names one, and a metric."""
    goal, colon, name = text.partition(":")
    return (goal, name) if colon and goal in ("min", "max") else (None, text)


def _refuse_more_than_one_commit(text: str) -> None:
    """Say what to type instead of a range, or of a file where a commit is wanted."""
    if (ends := _RANGE.fullmatch(text)) is not None:
        left, right = ends["left"] or "HEAD", ends["right"] or "HEAD"
        raise UsageError(
            f"'{text}' is a range of commits, which mvcs does not have yet",
            hint=f"'mvcs log {right}' lists the commits of one side, 'mvcs diff {left} {right}' compares two",
        )
    found = split_revision_file(text)
    if found is not None:
        raise UsageError(
            f"'{text}' names a file, and a commit is wanted here", hint=f"leave out ':{found[1]}'"
        )


def goal_of(name: str) -> Goal | None:
    """Return whether a metric is better high or low; None where its name says neither, or both.

    Only whole words count: they end where anything but a letter or digit stands, or at a capital after a
    small letter; digits at the end of a word may be left away, as in `acc5`.
    """
    words = _words(name)
    up, down, turned = (any(map(kind.fullmatch, words)) for kind in (_UP, _DOWN, _TURNS))
    if up == down or turned or re.match(r"1\W", name):
        return None
    return "max" if up else "min"


def _words(name: str) -> list[str]:
    parts = re.findall(r"[^\W_]+", name)
    parts += [word for part in parts for word in re.findall(r"[A-Z]*[^A-Z]+|[A-Z]+", part)]
    words = [part.lower() for part in parts]
    return words + [bare for word in words if (bare := word.rstrip("0123456789")) != word]
