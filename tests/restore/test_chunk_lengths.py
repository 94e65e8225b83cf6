"""A tree whose chunk is not as long as its tensor's shape needs: its store was damaged, or made so."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mvcs import Repository
from mvcs.errors import CorruptionError
from mvcs.objects import CHUNK_ELEMENTS, ExactTensor, Kind, Leaf, object_id
from tests.remotes.forging import add_commit

SPARE = 1000


@pytest.fixture
def short(tmp_path: Path) -> Path:
    """A store whose newest commit names the short last chunk of its tensor for the first one too."""
    values = np.zeros(CHUNK_ELEMENTS + SPARE, np.float32)
    with Repository.init(tmp_path) as repo:
        repo.commit({"a": values})
        session = repo._session
        head = session.resolver.resolve("HEAD")
        tree = session.store.tree(head.commit.tree)
        packs = session.store.manifests.placement(head.id).packs
    (leaf,) = tree.leaves
    assert isinstance(leaf.tensor, ExactTensor)
    short = replace(leaf.tensor, chunks=(leaf.tensor.chunks[1],) * 2)
    content = replace(tree, leaves=(Leaf(short),)).encode()
    lying = replace(head.commit, tree=object_id(Kind.TREE, content), parents=(head.id,))
    add_commit(
        tmp_path / ".mvcs",
        "main",
        lying,
        [(Kind.TREE, content)],
        others=packs,
    )
    return tmp_path


@pytest.mark.parametrize("numpy", [True, False])
def test_a_restore_refuses_it(short: Path, numpy: bool) -> None:
    with Repository.open(short) as repo, pytest.raises(CorruptionError, match="the grid asks for"):
        repo.restore("HEAD", numpy=numpy)


def test_fsck_names_it(short: Path) -> None:
    with Repository.open(short) as repo:
        assert any("the grid asks for" in str(problem) for problem in repo.fsck().problems)
