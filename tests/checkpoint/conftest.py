"""Committing files without a repository: capture, name, decode, write again."""

import pathlib
from dataclasses import dataclass

import pytest

from mvcs.checkpoint.files import capture_files, export_file, write_file
from mvcs.checkpoint.state.captured import Captured
from mvcs.checkpoint.state.state import ContentReader, capture_state
from mvcs.objects.ids import Kind, object_id
from mvcs.objects.tensors import ExactTensor
from mvcs.objects.trees.leaves import FileFormat, Leaf
from mvcs.objects.trees.tree import Tree


@dataclass
class Held:
    """What a repository would hold of something captured: a decoded tree and the bytes it refers to."""

    captured: Captured
    tree: Tree
    data: list[bytes]
    blobs: dict[bytes, bytes]
    asked: list[int]

    def leaves(self, indices):
        for index in indices:
            self.asked.append(index)
            yield self.data[index]

    def blob(self, identifier, length):
        assert len(self.blobs[identifier]) == length
        return self.blobs[identifier]

    @property
    def content(self) -> ContentReader:
        return ContentReader(self.tree, self.leaves, self.blob, lambda *named: iter([self.blob(*named)]))

    def write(self, folder: pathlib.Path) -> list[pathlib.Path]:
        written = []
        for entry in self.tree.files:
            target = folder / entry.path
            target.parent.mkdir(parents=True, exist_ok=True)
            write_file(entry, self.content, target)
            written.append(target)
        return written

    def export(self, target, fmt, keep=None):
        return export_file(self.content, target, fmt, keep)


def hold(captured: Captured) -> Held:
    data = [leaf.source.read().tobytes() for leaf in captured.leaves]
    blobs = {identifier: source.read().tobytes() for identifier, source in captured.blobs.items()}
    leaves = tuple(
        Leaf(ExactTensor(leaf.dtype, leaf.shape, tuple(object_id(Kind.CHUNK, part) for part in leaf.views())))
        for leaf in captured.leaves
    )
    tree = Tree.decode(Tree(leaves, root=captured.root, files=captured.files).encode())
    assert tree.raw_bytes == captured.raw_bytes
    assert tree.leaf_paths() == [leaf.path for leaf in captured.leaves]
    assert {identifier for identifier, _ in tree.blobs()} == set(blobs)
    return Held(captured, tree, data, blobs, [])


@pytest.fixture
def hold_files(tmp_path):
    def held(*paths, top=tmp_path, names=None):
        return hold(capture_files([pathlib.Path(path) for path in paths], top, names or {}))

    return held


@pytest.fixture
def kept(tmp_path):
    """Commit a file that no format holds; return why, once it came back byte for byte."""

    def kept_bytes(path):
        captured = capture_files([path], tmp_path)
        (written,) = hold(captured).write(tmp_path / "kept")
        assert written.read_bytes() == path.read_bytes()
        assert captured.files[0].format in (FileFormat.OPAQUE, FileFormat.BINARY)
        (note,) = captured.notes
        return note

    return kept_bytes


@pytest.fixture
def hold_state():
    return lambda state: hold(capture_state(state))
