"""What is there byte for byte and restores to nothing, as a stranger or a bug writes it, is never ok."""

from pathlib import Path

import numpy as np
import pytest

from mvcs import Repository
from mvcs.delta.element import ElementFormat
from mvcs.errors import CorruptionError
from mvcs.objects.forms import Lattice
from mvcs.objects.tensors import QuantizedTensor
from mvcs.objects.trees.tree import Tree
from mvcs.store.writing.writer import ObjectWriter
from tests.cli.hostile import FLOAT32, leaf_of, publish, store_of

COUNT = 1000
TABLE = np.array([1, 2], "<f4").tobytes()
FORGED = {
    "a code beyond the table": (1, TABLE, bytes([9]) * COUNT, b""),
    "too few codes": (1, TABLE, bytes(COUNT // 2), b""),
    "codes of exceptions without these": (2, Lattice(127), np.full(COUNT, -32768, "<i2").tobytes(), b""),
    "exceptions that no code asks for": (2, Lattice(127), bytes(2 * COUNT), b"\x01"),
}


@pytest.fixture(params=FORGED.values(), ids=FORGED)
def forged(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str]:
    """A repository of one commit with one such tensor, whose id is told."""
    width, parameters, content, exceptions = request.param
    writer = ObjectWriter(store_of(tmp_path))
    codes = writer.put_chunk(content, ElementFormat(width, floating=False))
    marks = (writer.put_chunk(exceptions, ElementFormat(1, floating=False)) if exceptions else None,)
    tensor = QuantizedTensor(FLOAT32, (COUNT,), width, parameters, (codes,), marks, bytes(16))
    publish(tmp_path, [(Tree((leaf_of(tensor),), root=[2, [["w", [9, 0, 0]]]]), writer)])
    return tmp_path, tensor.id.hex()


def test_fsck_names_the_commit_and_the_tensor(forged: tuple[Path, str]) -> None:
    folder, tensor = forged
    with Repository.open(folder) as repo:
        with pytest.raises(CorruptionError):
            repo.checkout("main", numpy=True)
        (problem,) = (one for one in repo.fsck().problems if one.objects)
        assert problem.subject == f"commit {repo.head().id[:12]}"
    assert problem.kind == "commit"
    assert f"tensor {tensor[:12]} " in problem.message
    assert problem.objects == [tensor]


@pytest.mark.parametrize("checked", [True, False], ids=["after fsck", "alone"])
def test_repair_says_that_the_commit_is_lost(forged: tuple[Path, str], checked: bool) -> None:
    folder, tensor = forged
    with Repository.open(folder) as repo:
        if checked:
            assert not repo.fsck().ok
        for report in (repo.repair(execute=False), repo.repair()):
            assert {name for problem in report.problems for name in problem.objects} == {tensor}
            assert [loss.tensors for loss in report.losses] == [["w"]]
            assert report.whole == []
        assert not repo.fsck().ok
