"""Which exact layers stay after a commit, which looks at the newest of a long history only.

Nothing may go that stays when all of the history is looked at.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from mvcs.history import Graph, Revision
from mvcs.objects import ObjectId
from mvcs.refs import HEADS, TAGS, RefStore
from mvcs.retention.facts import Source, survey
from mvcs.retention.plan import Ruling
from mvcs.retention.policy import judge, kept_anywhere
from mvcs.retention.rules import Keeps, Layer, Rule

SEARCHED = 256  # commits
_NEAR = frozenset({Keeps.LAST, Keeps.TAGGED})  # rules that name what they keep, however old it is


@dataclass(frozen=True)
class KeptLayers:
    """The commits that keep their exact layer, as far as was looked.

    Attributes:
        commits: those that keep it.
        packs: the packs of these layers, as far as they are known.
        judged: the commits of which it is known whether they keep it; None where it is of all.
    """

    commits: Collection[ObjectId]
    packs: frozenset[str]
    judged: Collection[ObjectId] | None

    @classmethod
    def of(cls, source: Source, ruling: Ruling, kept: int) -> "KeptLayers":
        """Judge the newest commits.

        Args:
            source: the store, its history, and what rules go by, pins included.
            ruling: the rules and pins in force.
            kept: how many bounded commits of each branch keep their layer where no rule says so.

        Raises:
            MvcsError: something cannot be read, or a rule cannot be applied: then nothing may go.
        """
        rules = ruling.of_layer(Layer.EXACT)
        return cls._by_rules(source, rules) if rules else cls._by_number(source, kept)

    @classmethod
    def _by_rules(cls, source: Source, rules: Sequence[Rule]) -> "KeptLayers":
        # What is not among the best of some commits is not among the best of all.
        surveyed = survey(source, rules, SEARCHED)
        verdicts = judge(rules, surveyed.history)
        stay = {key for key, verdict in verdicts.items() if verdict.keeps}
        stay |= kept_anywhere(rules, surveyed.history)
        known = {**surveyed.pointed, **surveyed.revisions}
        packs = _packs(known[key] for key in stay & known.keys())
        certain = surveyed.complete or all(rule.kind in _NEAR for rule in rules)
        return cls(stay, packs, None if certain else verdicts.keys())

    @classmethod
    def _by_number(cls, source: Source, kept: int) -> "KeptLayers":
        graph, refs = source.graph, source.refs
        tips = tips_of(graph, refs, HEADS)
        lines = [_newest_bounded(graph, tip, kept) for tip in tips]
        newest = [revision for found, _ in lines for revision in found]
        stay = [*newest, *tips_of(graph, refs, TAGS)]
        certain = all(complete for _, complete in lines)
        judged = None if certain else {it.id for it in islice(graph.walk(tips), SEARCHED)}
        return cls({*source.pins, *(it.id for it in stay)}, _packs(stay), judged)

    def lets_go(self, commit: ObjectId) -> bool:
        """Tell whether nothing keeps the layer of a commit, be it in sight or not."""
        return commit not in self.commits and (self.judged is None or commit in self.judged)


def tips_of(graph: Graph, refs: RefStore, kind: str) -> list[Revision]:
    """Return the commits that refs of a kind name.

    Raises:
        CorruptionError: the newest record of one is damaged, so that nobody can tell what it keeps.
    """
    records = refs.survey(kind).required().values()
    return [graph.load(record.target, record.pack) for record in records if record.target is not None]


def _packs(revisions: Iterable[Revision]) -> frozenset[str]:
    return frozenset(name for revision in revisions for name in revision.written.exact_packs)


def _newest_bounded(graph: Graph, tip: Revision, kept: int) -> tuple[list[Revision], bool]:
    """Return the newest bounded commits of a line, and whether there are no more of them to find."""
    line = graph.first_parents(tip)
    bounded = (revision for revision in islice(line, SEARCHED) if revision.written.exact_packs)
    found = list(islice(bounded, kept))
    return found, len(found) >= kept or next(line, None) is None
