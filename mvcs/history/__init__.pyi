from .commit_graph import Graph, Revision
from .counting_graph import CountingGraph
from .ending_packs import EndingPacks
from .filters import CommitFilter, When
from .goals import goal_of
from .needed_packs import GraphNeeds
from .revisions import Resolver, split_revision_file

__all__ = [
    "CommitFilter",
    "CountingGraph",
    "EndingPacks",
    "Graph",
    "GraphNeeds",
    "Resolver",
    "Revision",
    "When",
    "goal_of",
    "split_revision_file",
]
