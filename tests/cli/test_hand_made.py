"""Commits that no writer of this version makes: what they say more is shown, what does not fit is refused."""

import json

import numpy as np
import pytest

from mvcs.objects.ids import Kind
from mvcs.objects.tensors import ExactTensor
from mvcs.objects.trees.leaves import FileEntry, FileFormat, Leaf
from mvcs.objects.trees.tree import Tree
from tests.cli.conftest import Console
from tests.cli.hostile import FLOAT32
from tests.cli.many import EMPTY, Forger


def test_classes_and_names_of_errors_that_nobody_knows_are_shown(tmp_path):
    novel = (("novel", (("beyond", 1.0),)), ("weight", (("beyond", 2.0), ("rms", 0.5))))
    Forger(tmp_path).commit(Tree((EMPTY,), root=[9, 0, 0]), errors=novel)
    run = Console(tmp_path)
    for words in (("log",), ("show",), ("show", "--json")):
        run(*words)
    assert run("fsck", "--json").json["ok"]


HEADER = {"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}


@pytest.mark.parametrize(
    ("header", "code"),
    [
        (HEADER, 0),
        ({"v": HEADER["w"]}, 5),
        ({"w": {**HEADER["w"], "dtype": "I32"}}, 5),
        ({"w": {**HEADER["w"], "shape": [2, 1]}}, 5),
        ({"w": {**HEADER["w"], "data_offsets": [8, 16]}}, 5),
        ({**HEADER, "v": {"dtype": "F32", "shape": [0], "data_offsets": [8, 8]}}, 5),
        ({}, 5),
    ],
)
def test_the_header_of_a_safetensors_file_describes_its_tensors(tmp_path, header, code):
    forger, content = Forger(tmp_path), np.float32([1, -2]).tobytes()
    leaf = Leaf(ExactTensor(FLOAT32, (2,), (forger.put(Kind.CHUNK, content),)))
    text = json.dumps(header).encode()
    entry = FileEntry("w.safetensors", FileFormat.SAFETENSORS, [2, [["w", [9, 0, 0]]]], text)
    forger.commit(Tree((leaf,), files=(entry,)))
    Console(tmp_path)("checkout", "main", code=code)
    written = tmp_path / "w.safetensors"
    assert written.exists() is (code == 0)
    if not code:
        assert written.read_bytes() == len(text).to_bytes(8, "little") + text + content
