"""Ways through a decoded structure: all of it, or references to tensors alone, with a stack of their own."""

from collections.abc import Iterator

from mvcs.objects.cbor import Value
from mvcs.objects.trees.structure import Key, NodeTag, Path, children_of, is_tensor, tensor_reference

_LIST = [int(NodeTag.LIST)]


def nodes_below(node: Value) -> list[Value]:
    """Return the values of `children_of`."""
    if type(node) is list and node[:1] == _LIST:
        return node[1:]
    return [child for _, child in children_of(node)]


def walk_nodes(node: Value, path: Path = ()) -> Iterator[tuple[Path, Value]]:
    """Yield every node below and including `node` with its path, depth first, in order."""
    yield path, node
    outer = [(path, _children(node))]
    while outer:
        here, below = outer[-1]
        for key, child in below:
            place = (*here, key)
            yield place, child
            if type(child) is list and not is_tensor(child):
                outer.append((place, _children(child)))
                break
        else:
            outer.pop()


def walk_tensors(node: Value, path: Path = ()) -> Iterator[tuple[Path, int]]:
    """Yield path and leaf of every tensor reference below and including `node`, in order."""
    outer: list[tuple[Path, Iterator[tuple[Key | None, Value]]]] = [(path, iter(((None, node),)))]
    while outer:
        here, below = outer[-1]
        for key, child in below:
            if type(child) is not list:
                continue
            place = here if key is None else (*here, key)
            reference = tensor_reference(child)
            if reference is None:
                outer.append((place, _children(child)))
                break
            yield place, reference[0]
        else:
            outer.pop()


def _children(node: Value) -> Iterator[tuple[Key, Value]]:
    """Do what `children_of` does; for lists, which may be long, without a step of ours for each item."""
    if type(node) is list and node[:1] == _LIST:
        return enumerate(node[1:])
    return children_of(node)
