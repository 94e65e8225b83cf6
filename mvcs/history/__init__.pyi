from .commit_graph import Graph, GraphNeeds, Revision
from .filters import CommitFilter, When
from .revisions import Resolver, goal_of, split_revision_file

__all__ = [
    "CommitFilter",
    "Graph",
    "GraphNeeds",
    "Resolver",
    "Revision",
    "When",
    "goal_of",
    "split_revision_file",
]
