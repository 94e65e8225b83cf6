from .filters import CommitFilter, When
from .graph import Graph, Revision
from .revisions import Resolver, split_revision_file

__all__ = [
    "CommitFilter",
    "Graph",
    "Resolver",
    "Revision",
    "When",
    "split_revision_file",
]
