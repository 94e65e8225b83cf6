"""A commit's tensors as one new file, in a format the commit need not have come from."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import BinaryIO

from mvcs.checkpoint.formats.detection import check_tensor_name
from mvcs.checkpoint.formats.npz_file import write_arrays
from mvcs.checkpoint.formats.restored_mark import marked
from mvcs.checkpoint.formats.safetensors_header import METADATA_KEY, build_header, can_hold, length_prefix
from mvcs.checkpoint.state.arrays import numpy_dtype, rebuild_scalar
from mvcs.checkpoint.state.content_reader import ContentReader
from mvcs.checkpoint.torch_files.needing_torch import needing_torch
from mvcs.errors import UsageError
from mvcs.objects import (
    DType,
    FileFormat,
    NodeTag,
    Path,
    TensorFlag,
    Tree,
    Value,
    as_text,
    blob_reference,
    children_of,
    contents_of,
    pairs_of,
    path_text,
    tag_of,
    tensor_reference,
    walk_nodes,
)

_CONTAINERS = (NodeTag.LIST, NodeTag.TUPLE, NodeTag.DICT, NodeTag.ORDERED_DICT, NodeTag.COUNTER)
_WITHOUT_TORCH = "tensors are written without to a file that ends in .safetensors or .npz"


@dataclass(frozen=True)
class Named:
    """One tensor of the new file: its name, its path in the commit, and its leaf."""

    name: str
    path: Path
    index: int


def export_to(
    file: BinaryIO,
    content: ContentReader,
    fmt: FileFormat,
    keep: Collection[int] | None,
    names: Mapping[str, int] | None = None,
) -> list[str]:
    """Write a tree's tensors to `file`; `mvcs.checkpoint.files.export_file` says how.

    Raises:
        UsageError: two tensors would have one name, or the format holds no tensors.
    """
    tree = content.tree
    keep = keep if names is None else set(names.values())
    whole = keep is None and (tree.files is None or len(tree.files) == 1)
    if fmt is FileFormat.TORCH and whole and _has_structure(tree):
        return _export_structure(file, content)
    named = _named(tree, keep) if names is None else _renamed(tree, names)
    lost = (
        []
        if keep is not None
        else list(dict.fromkeys(path_text(_without_metadata(path)) for path in _values(tree)))
    )
    if fmt is FileFormat.SAFETENSORS:
        return lost + _export_safetensors(file, content, named)
    if fmt is FileFormat.NPZ:
        return lost + _export_npz(file, content, named)
    if fmt is FileFormat.TORCH:
        return lost + _export_torch(file, content, named)
    raise UsageError(f"nothing can be written in the format '{fmt}'")


def _has_structure(tree: Tree) -> bool:
    return tree.files is None or tree.files[0].format is not FileFormat.OPAQUE


def _named(tree: Tree, keep: Collection[int] | None) -> list[Named]:
    wanted = None if keep is None else frozenset(keep)
    named: dict[str, Named] = {}
    for prefix, root in contents_of(tree.files, tree.root):
        for path, node in walk_nodes(root):
            reference = tensor_reference(node)
            if reference is None or (wanted is not None and reference[0] not in wanted):
                continue
            tensor = Named(path_text(path) or "tensor", prefix + path, reference[0])
            other = named.setdefault(tensor.name, tensor)
            if other is not tensor:
                raise UsageError(
                    f"'{path_text(other.path)}' and '{path_text(tensor.path)}' would both be '{tensor.name}'",
                    hint=_one_alone(tree, other.path),
                )
    return sorted(named.values(), key=lambda tensor: tensor.index)


def _one_alone(tree: Tree, path: Path) -> str:
    """Return how one of several tensors of a name is written, given its path."""
    if tree.files is None:
        return "all of the state, without --tensor, can be written to a .pt file"
    return f"name one file of the commit, such as REV:{path[0]}; or write all of it into a folder"


def _renamed(tree: Tree, names: Mapping[str, int]) -> list[Named]:
    paths = tree.leaf_paths()
    named = (Named(name, paths[index], index) for name, index in names.items())
    return sorted(named, key=lambda tensor: tensor.index)


def _values(tree: Tree) -> Iterator[Path]:
    for prefix, root in contents_of(tree.files, tree.root):
        for path, node in walk_nodes(root, prefix):
            inner = isinstance(node, list) and tensor_reference(node) is None and blob_reference(node) is None
            empty = inner and not any(children_of(node))
            if tensor_reference(node) is None and (
                not inner or (empty and tag_of(node)[0] not in _CONTAINERS)
            ):
                yield path


def _without_metadata(path: Path) -> Path:
    # The versions torch keeps beside a state dict are one thing to a reader, not one for each module.
    return path[:-2] if path[-3:-2] == ("_metadata",) and path[-1] == "version" else path


def _export_safetensors(file: BinaryIO, content: ContentReader, named: list[Named]) -> list[str]:
    leaves = content.tree.leaves
    held = [tensor for tensor in named if can_hold(leaves[tensor.index].dtype)]
    if any(tensor.name == METADATA_KEY for tensor in held):
        raise UsageError(f"safetensors cannot hold a tensor named '{METADATA_KEY}'")
    for tensor in held:
        check_tensor_name(tensor.name, FileFormat.SAFETENSORS)
    described = {tensor.name: (leaves[tensor.index].dtype, leaves[tensor.index].shape) for tensor in held}
    header, begins = build_header(described)
    restored = content.restored_from(tensor.index for tensor in held)
    header = header if restored is None else marked(header, restored)
    start = file.write(length_prefix(header)) + file.write(header)
    data, last = memoryview(b""), -1
    for tensor in held:
        if tensor.index != last:
            data, last = content.leaf(tensor.index), tensor.index
        file.seek(start + begins[tensor.name])
        file.write(data)
    return [path_text(tensor.path) for tensor in named if not can_hold(leaves[tensor.index].dtype)]


def _export_npz(file: BinaryIO, content: ContentReader, named: list[Named]) -> list[str]:
    write_arrays([(tensor.name, tensor.index) for tensor in named], content, file)
    kinds = [(path_text(tensor.path), content.tree.leaves[tensor.index].dtype) for tensor in named]
    return [_as_integers(text, dtype) for text, dtype in kinds if dtype.numpy is None]


def _as_integers(text: str, dtype: DType) -> str:
    return f"{text} ({dtype.name}, as {numpy_dtype(dtype)})"


def _export_torch(file: BinaryIO, content: ContentReader, named: list[Named]) -> list[str]:
    with needing_torch("writing a file of torch.save", hint=_WITHOUT_TORCH):
        from mvcs.checkpoint.torch_files.torch_file import write_torch

    node: Value = [
        int(NodeTag.DICT),
        [[tensor.name, [int(NodeTag.TENSOR), tensor.index, 0]] for tensor in named],
    ]
    write_torch(node, content, file)
    return []


def _export_structure(file: BinaryIO, content: ContentReader) -> list[str]:
    with needing_torch("writing a file of torch.save", hint=_WITHOUT_TORCH):
        from mvcs.checkpoint.torch_files.torch_file import write_torch

    changed: list[str] = []
    (_, root), *_ = contents_of(content.tree.files, content.tree.root)
    write_torch(_portable(root, (), changed), content, file)
    return changed


def _portable(node: Value, path: Path, changed: list[str]) -> Value:
    """Return a structure whose torch file the restricted loader reads; note what became another type."""
    if not isinstance(node, list):
        return node
    tag, rest = tag_of(node)
    reference = tensor_reference(node)
    if reference is not None and TensorFlag.NUMPY in reference[1]:
        changed.append(f"{path_text(path)} (numpy array, as a tensor)")
        return [int(NodeTag.TENSOR), reference[0], int(reference[1] & ~TensorFlag.NUMPY)]
    if tag is NodeTag.NUMPY_SCALAR:
        changed.append(f"{path_text(path)} (numpy scalar, as a number)")
        number = rebuild_scalar(*rest).item()
        return [int(NodeTag.COMPLEX), number.real, number.imag] if isinstance(number, complex) else number
    if tag is NodeTag.FROZENSET:
        changed.append(f"{path_text(path)} (frozenset, as a set)")
        return [int(NodeTag.SET), *rest]
    if tag is NodeTag.OBJECT and rest[0] not in ("dict", "Counter", "OrderedDict"):
        changed.append(f"{path_text(path)} ({as_text(rest[0], 'a kind')}, as a tuple of its parts)")
        tag, rest = NodeTag.TUPLE, rest[1:]
    return _portable_container(tag, rest, path, changed)


def _portable_container(tag: NodeTag, rest: list[Value], path: Path, changed: list[str]) -> Value:
    if tag in (NodeTag.LIST, NodeTag.TUPLE, NodeTag.OBJECT):
        return [int(tag), *(_portable(item, (*path, index), changed) for index, item in enumerate(rest))]
    if tag not in _CONTAINERS:
        return [int(tag), *rest]
    pairs: list[Value] = [[key, _portable(item, (*path, key), changed)] for key, item in pairs_of(rest[0])]
    return [int(tag), pairs, *(_portable(item, (*path, "_metadata"), changed) for item in rest[1:])]
