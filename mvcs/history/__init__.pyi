from .commit_graph import Graph, Revision
from .filters import CommitFilter, When
from .revisions import Resolver, split_revision_file

__all__ = [
    "CommitFilter",
    "Graph",
    "Resolver",
    "Revision",
    "When",
    "split_revision_file",
]
