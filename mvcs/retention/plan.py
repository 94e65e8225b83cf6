"""What retention would do with a store by its rules and pins; nothing is changed here."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mvcs.errors import ConflictError, NotFoundError
from mvcs.history import Revision
from mvcs.objects import ObjectId, short_id
from mvcs.retention.facts import Source, Survey, survey
from mvcs.retention.pins import pinned, pins_row
from mvcs.retention.policy import Verdict, judge, keeps_nothing, unmatched
from mvcs.retention.rules import Layer, Rule, RuleRecord, rules_row
from mvcs.store import Backend, DataDrop, Manifests, exact_packs

GONE = ", and are gone"
_ENDS = 2  # so many have nothing between them


@dataclass(frozen=True)
class Ruling:
    """The rules and pins of a store.

    Attributes:
        rules: the record in force; None where none was ever made.
        pins: why commits are pinned.
    """

    rules: RuleRecord | None = None
    pins: Mapping[ObjectId, str] = field(default_factory=dict)

    @classmethod
    def of(cls, backend: Backend) -> "Ruling":
        """Read them.

        Raises:
            CorruptionError: the newest record of either cannot be read, so that nothing may go.
            UnsupportedFormatError: a later version wrote it.
        """
        return cls(rules_row(backend).newest(), pinned(backend))

    def of_layer(self, layer: Layer) -> Sequence[Rule]:
        """Return the rules of one layer."""
        return () if self.rules is None else self.rules.of(layer)

    def with_rules(self, layer: Layer, rules: Sequence[Rule]) -> "Ruling":
        """Return what would be in force with other rules of one layer."""
        others = (rule for rule in (self.rules.rules if self.rules else ()) if rule.layer != layer)
        return replace(self, rules=RuleRecord(0, (*others, *rules), 0, ""))

    @property
    def number(self) -> int | None:
        """The number of the record of rules; None where there is none."""
        return None if self.rules is None else self.rules.number


def has_ruling(backend: Backend) -> bool:
    """Tell whether a store has any rule or pin, without reading one."""
    return any(backend.newest(row(backend).folder) is not None for row in (rules_row, pins_row))


@dataclass(frozen=True)
class Plan:
    """What becomes of each commit of a store.

    Attributes:
        ruling: the rules and pins it goes by.
        surveyed: the commits.
        verdicts: by layer and commit; a layer without rules is left out.
        dropped: commits whose data went before.
        layers: the packs of exact layers that are there, where rules are about them.
    """

    ruling: Ruling
    surveyed: Survey
    verdicts: Mapping[Layer, Mapping[ObjectId, Verdict]]
    dropped: Mapping[ObjectId, DataDrop]
    layers: frozenset[str] = frozenset()

    @classmethod
    def of(cls, source: Source, ruling: Ruling) -> "Plan":
        """Judge every commit that branches, tags and HEADs lead to.

        Raises:
            MvcsError: something cannot be read, or a rule cannot be applied: then nothing goes.
        """
        rules = [rule for layer in Layer for rule in ruling.of_layer(layer)]
        surveyed = survey(replace(source, pins=ruling.pins), rules)
        verdicts = {
            layer: judge(ruling.of_layer(layer), surveyed.history)
            for layer in Layer
            if ruling.of_layer(layer)
        }
        _keep_what_layers_need(verdicts, surveyed)
        layers = frozenset(exact_packs(source.backend) if Layer.EXACT in verdicts else ())
        dropped = Manifests(source.backend).dropped(surveyed.revisions)
        return cls(ruling, surveyed, verdicts, dropped, layers)

    def has(self, layer: Layer, revision: Revision) -> bool:
        """Tell whether something of a layer of a commit is there, so that it can stay or go."""
        if layer is Layer.DATA:
            return self.dropped.get(revision.id) is None
        return not self.layers.isdisjoint(revision.written.exact_packs)

    def keeps_data(self, commit: ObjectId) -> bool:
        """Tell whether a commit is to have its data, wherever these are; without rules all are."""
        verdicts = self.verdicts.get(Layer.DATA)
        return verdicts is None or (commit in verdicts and verdicts[commit].keeps)

    def dropped_and_kept(self) -> list[Revision]:
        """Return the commits whose data went before, and that something keeps now."""
        revisions = self.surveyed.revisions.items()
        return [it for key, it in revisions if self.dropped.get(key) and self.keeps_data(key)]

    def going(self, layer: Layer) -> list[Revision]:
        """Return the commits that no rule keeps, the newest first; those without the layer are none."""
        verdicts = self.verdicts.get(layer, {})
        return [
            revision
            for key, revision in self.surveyed.revisions.items()
            if key in verdicts and not verdicts[key].keeps and self.has(layer, revision)
        ]

    def refuse_everything(self) -> None:
        """Check that rules keep something beyond what stays anyway.

        Raises:
            ConflictError: they do not.
        """
        for layer, verdicts in self.verdicts.items():
            if keeps_nothing(verdicts.values()) and self.going(layer):
                there = sum(self.has(layer, revision) for revision in self.surveyed.revisions.values())
                raise ConflictError(
                    f"of the {layer.text} these rules keep nothing but tips of branches, pins and HEAD, "
                    f"and would drop {len(self.going(layer))} of {there} commits",
                    hint="if that is what you want, say so with --force",
                )

    def unmatched(self) -> list[str]:
        """Say which rules keep no commit yet."""
        rules = [(layer, rule) for layer in self.verdicts for rule in self.ruling.of_layer(layer)]
        never = unmatched([rule for _, rule in rules], self.surveyed.history)
        return [
            f"no commit matches the rule for the {layer.text} yet: {rule.text}"
            for layer, rule in rules
            if rule in never
        ]

    def missing(self, there: Collection[ObjectId] = ()) -> list[str]:
        """Say what rules and pins keep whose data are gone already, and not `there` all the same."""
        verdicts = self.verdicts.get(Layer.DATA, {})
        gone = [key for key in self.dropped if key in self.ruling.pins]
        gone += [
            key
            for key, verdict in verdicts.items()
            if (verdict.rules or verdict.for_layer) and self.dropped.get(key)
        ]
        lost = [key for key in dict.fromkeys(gone) if key not in there]
        return dropped_before(lost, commit_names(self.surveyed), GONE)


def _keep_what_layers_need(verdicts: Mapping[Layer, dict[ObjectId, Verdict]], surveyed: Survey) -> None:
    """Keep the data of commits whose exact layer a rule keeps: it is stored near them."""
    data = verdicts.get(Layer.DATA, {})
    for key, verdict in verdicts.get(Layer.EXACT, {}).items():
        if verdict.rules and surveyed.revisions[key].written.exact_packs and key in data:
            data[key] = replace(data[key], for_layer=True)


def commit_names(surveyed: Survey, first: Sequence[str] = ()) -> dict[ObjectId, str]:
    """Return what each commit is called: `main@1200` by its step, else `main~3`, else by its id.

    Args:
        surveyed: the commits.
        first: branches that name a commit rather than others, if they are there.
    """
    names: dict[ObjectId, str] = {}
    for branch, tip in _branches(surveyed, first).items():
        met: set[int] = set()
        for back, revision in enumerate(_line(surveyed.revisions, tip)):
            step = revision.commit.step
            plain = f"{branch}~{back}" if back else branch
            names.setdefault(revision.id, plain if step is None or step in met else f"{branch}@{step}")
            met |= set() if step is None else {step}
    return {key: names.get(key, short_id(key)) for key in surveyed.revisions}


def _branches(surveyed: Survey, first: Sequence[str]) -> dict[str, Revision]:
    """Return the tips of branches, those of some names first."""
    branches = surveyed.named.branches
    return {name: branches[name] for name in (*first, *branches) if name in branches}


def _line(revisions: Mapping[ObjectId, Revision], tip: Revision) -> Iterator[Revision]:
    current: Revision | None = tip
    while current is not None:
        yield current
        parents = current.commit.parents
        current = revisions.get(parents[0]) if parents else None


def nearest_there(
    revision: Revision, surveyed: Survey, dropped: Collection[ObjectId], first: Sequence[str] = ()
) -> Revision:
    """Return the commit near another, by its step or else its place, whose data are there.

    One on a branch that has the other as well is taken, the `first` branches before others, if there is one.

    Raises:
        NotFoundError: there is none.
    """
    tips = _branches(surveyed, first).values()
    lines = [list(_line(surveyed.revisions, tip)) for tip in tips]
    own = [line for line in lines if any(it.id == revision.id for it in line)]
    for commits in (*own, list(surveyed.revisions.values())):
        there = [it for it in commits if it.id not in dropped and it.id != revision.id]
        if there:
            return _nearest(revision, there, surveyed)
    raise NotFoundError("no commit's data are there")


def _nearest(revision: Revision, there: Sequence[Revision], surveyed: Survey) -> Revision:
    order = {key: place for place, key in enumerate(surveyed.revisions)}
    step = revision.commit.step
    stepped = [it for it in there if it.commit.step is not None] if step is not None else []
    if step is not None and stepped:
        return min(stepped, key=lambda it: abs((it.commit.step or 0) - step))
    return min(there, key=lambda it: abs(order[it.id] - order.get(revision.id, 0)))


def dropped_before(commits: Sequence[ObjectId], names: Mapping[ObjectId, str], now: str) -> list[str]:
    """Say it of each commit, or of many at once.

    Args:
        commits: the newest first.
        names: what they are called.
        now: what became of their data.
    """
    if len(commits) <= _ENDS:
        return [f"the data of {short_id(key)} were dropped before{now}" for key in commits]
    ends = " to ".join(named(key, names) for key in (commits[0], commits[-1]))
    return [f"the data of {len(commits)} commits, {ends}, were dropped before{now}"]


def named(commit: ObjectId, names: Mapping[ObjectId, str]) -> str:
    """Return what people call a commit, and its id where that is something else."""
    short = short_id(commit)
    name = names.get(commit, short)
    return short if name == short else f"{name} ({short})"
