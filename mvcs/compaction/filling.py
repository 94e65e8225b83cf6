"""All objects of one commit get a place among the packs that may stay."""

from collections.abc import Callable

from mvcs.compaction.neighbours import Neighbours
from mvcs.compaction.values import CommitValues
from mvcs.delta import Encoding
from mvcs.objects import ObjectId
from mvcs.store import Located, Rewriter


def fill(
    rewriter: Rewriter,
    commit: ObjectId,
    values: CommitValues,
    near: Neighbours,
    rest: Callable[[], None],
) -> None:
    """Give all objects a place that have none, but for the commit: it lies in the pack that ends it.

    Between two entries `rest` is called, which may wait.
    """
    steps = near.steps
    data = values.kinds.keys() - {commit}
    for links in near.entries(name for name in values.kinds if name in data and not rewriter.holds(name)):
        rest()
        whole = data.issuperset(links[0].placed.ids)
        stays = whole and (near.down or _hangs_on_nothing(rewriter, links, near))
        if not (stays and rewriter.adopt(links[0])):
            rewriter.encode(links, near.of, steps)


def _hangs_on_nothing(rewriter: Rewriter, links: list[Located], near: Neighbours) -> bool:
    """Tell whether an entry is what it will be: near nothing, or rounded from another of its own commit."""
    entry = links[0].placed.entry
    if entry.encoding is Encoding.NARROWED:
        return True
    return not entry.bases and not any(rewriter.holds(base) for link in links for base in near.of(link))
