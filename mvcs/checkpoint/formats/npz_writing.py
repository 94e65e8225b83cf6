"""npz archives written again: the same names and arrays in the same order, not compressed."""

import zipfile
from typing import BinaryIO

import numpy as np

from mvcs.checkpoint.formats.detection import check_tensor_name
from mvcs.checkpoint.formats.npz_file import SUFFIX
from mvcs.checkpoint.state.arrays import numpy_view
from mvcs.checkpoint.state.content_reader import ContentReader
from mvcs.errors import CorruptionError
from mvcs.objects import FileEntry, FileFormat, NodeTag, pairs_of, tag_of, tensor_reference


def write_npz(entry: FileEntry, content: ContentReader, file: BinaryIO) -> None:
    """Write a committed archive again: the same names and arrays in the same order, not compressed.

    Raises:
        CorruptionError: the commit's archive holds something other than arrays.
    """
    tag, rest = tag_of(entry.node)
    names: list[tuple[str, int]] = []
    for key, node in pairs_of(rest[0] if tag is NodeTag.DICT and len(rest) == 1 else None):
        reference = tensor_reference(node)
        if not isinstance(key, str) or reference is None:
            raise CorruptionError(f"the archive '{entry.path}' holds something other than arrays")
        names.append((key, reference[0]))
    write_arrays(names, content, file)


def write_arrays(names: list[tuple[str, int]], content: ContentReader, file: BinaryIO) -> None:
    """Write leaves as the arrays of a new archive, one at a time, each read once if its names stand together.

    Args:
        names: name and leaf index of each array.
        content: where leaves are read.
        file: where the archive goes.

    Raises:
        UsageError: an archive cannot hold one of the names.
    """
    array, held = np.empty(0), -1
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, index in names:
            check_tensor_name(name, FileFormat.NPZ)
            if index != held:
                leaf = content.tree.leaves[index]
                array, held = numpy_view(leaf.dtype, leaf.shape, content.leaf(index)), index
            # Without a date of its own a member has one fixed date, so equal content is an equal file.
            with archive.open(zipfile.ZipInfo(name + SUFFIX), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
