from .commit_graph import Graph, Revision
from .counting_graph import CountingGraph, EndingPacks, GraphNeeds
from .filters import CommitFilter, When
from .revisions import Resolver, goal_of, split_revision_file

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
