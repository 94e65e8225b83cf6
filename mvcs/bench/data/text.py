"""Text to train on that every machine with Python has, and its word pieces as BERT's models number them."""

import ast
import random
import re
import sysconfig
import unicodedata
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from pydoc_data.topics import topics

import numpy as np
from numpy.typing import NDArray

from mvcs.errors import FileFormatError, NotFoundError

Text = NDArray[np.uint8]

_FOREIGN = frozenset({"site-packages", "dist-packages", "__pycache__"})
_VALID_SHARE = 0.05
_VALID_PAGES = 0.25
_NO_SOURCE = frozenset({"site-packages", "dist-packages", "__pycache__", "test", "tests", "idle_test"})
_VALID_FILES = 0.25
_SHORTEST = 3
_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|_+")

Pair = tuple[str, str]
"""A function's name as words, and the first line of its docstring."""
PAD = 0

_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
_WORDS = re.compile(r"\w+|[^\w\s]")
_LONGEST = 100


@dataclass(frozen=True)
class Corpus:
    """Bytes to train on and bytes to validate on, from different files."""

    train: Text
    valid: Text


def standard_library(folder: Path | None = None) -> Corpus:
    """Read every `.py` file of the standard library, split by file, always in the same way.

    Args:
        folder: where the files lie instead.

    Raises:
        NotFoundError: there are fewer than two.
    """
    root = folder or Path(sysconfig.get_path("stdlib"))
    files = sorted(path for path in root.rglob("*.py") if not _FOREIGN & set(path.relative_to(root).parts))
    if len(files) < 2:
        raise NotFoundError(f"there are no Python files in '{root}'", hint="install the standard library")
    random.Random(0).shuffle(files)  # noqa: S311  # a seeded split is not a secret
    valid = max(1, round(len(files) * _VALID_SHARE))
    return Corpus(_joined(files[valid:]), _joined(files[:valid]))


def documentation() -> Corpus:
    """Return the pages of documentation that `help()` shows, split by page, always in the same way."""
    pages = [page.encode() for _, page in sorted(topics.items())]
    random.Random(0).shuffle(pages)  # noqa: S311  # a seeded split is not a secret
    valid = max(1, round(len(pages) * _VALID_PAGES))
    parts = (pages[valid:], pages[:valid])
    return Corpus(*(np.frombuffer(b"\n\n".join(part), np.uint8) for part in parts))


def held_out_text(file: Path) -> Corpus:
    """Return a corpus to evaluate on only: nothing to train on, and a file of text that a run has not seen.

    Raises:
        NotFoundError: it cannot be read.
    """
    try:
        return Corpus(np.empty(0, np.uint8), np.frombuffer(file.read_bytes(), np.uint8))
    except OSError as error:
        raise NotFoundError(f"cannot read '{file}': {error.strerror or error}") from error


def _joined(files: list[Path]) -> Text:
    return np.frombuffer(b"\n".join(path.read_bytes() for path in files), np.uint8)


@dataclass(frozen=True)
class Pairs:
    """Pairs to train on and pairs to validate on, from different files; no docstring is in both."""

    train: tuple[Pair, ...]
    valid: tuple[Pair, ...]


def docstrings(folder: Path | None = None) -> Pairs:
    """Read the functions of every module of the standard library, split by file, always in the same way.

    Functions without a docstring of three words are left out, and so is a docstring that stood before.

    Args:
        folder: where the modules lie instead.

    Raises:
        NotFoundError: there are none on one of the two sides.
    """
    root = folder or Path(sysconfig.get_path("stdlib"))
    files = sorted(path for path in root.rglob("*.py") if not _NO_SOURCE & set(path.relative_to(root).parts))
    random.Random(0).shuffle(files)  # noqa: S311  # a seeded split is not a secret
    valid = max(1, round(len(files) * _VALID_FILES))
    seen: set[str] = set()
    pairs = Pairs(*(tuple(_new(part, seen)) for part in (files[valid:], files[:valid])))
    if not pairs.train or not pairs.valid:
        raise NotFoundError(
            f"there are too few functions with docstrings in '{root}'", hint="install the standard library"
        )
    return pairs


def _new(files: list[Path], seen: set[str]) -> list[Pair]:
    """Return the pairs of files whose docstring is none of `seen`, and add them to it."""
    found = []
    for name, line in (pair for path in files for pair in _pairs(path)):
        if line.lower() not in seen:
            seen.add(line.lower())
            found.append((name, line))
    return found


def _functions(node: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield functions, methods, and what is defined inside either."""
    body = getattr(node, "body", None)
    for child in body if isinstance(body, list) else []:
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield child
        yield from _functions(child)


def _pairs(path: Path) -> list[Pair]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            module = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):  # a file of the standard library's own tests of the parser
        return []
    told = [
        (each.name, (ast.get_docstring(each) or "").partition("\n")[0].strip()) for each in _functions(module)
    ]
    named = [(" ".join(_HUMPS.sub(" ", name).split()).lower(), line) for name, line in told]
    return [(name, line) for name, line in named if name and len(line.split()) >= _SHORTEST]


@dataclass(frozen=True)
class WordPieces:
    """Lower case without accents, then the longest pieces from the left (Wu et al. 2016, section 4.1).

    Attributes:
        pieces: all pieces in the order of their numbers; those inside a word begin with "##".
    """

    pieces: tuple[str, ...]

    @classmethod
    def read(cls, file: Path) -> "WordPieces":
        """Read a `vocab.txt`, a piece a line.

        Raises:
            NotFoundError: it cannot be read.
            FileFormatError: it is no vocabulary of BERT.
        """
        try:
            pieces = tuple(file.read_text(encoding="utf-8").splitlines())
        except OSError as error:
            raise NotFoundError(f"cannot read '{file}': {error.strerror or error}") from error
        except UnicodeDecodeError as error:
            raise FileFormatError(f"'{file}' is not text in UTF-8") from error
        if pieces[:1] != ("[PAD]",) or not set(_SPECIAL) <= set(pieces):
            raise FileFormatError(
                f"'{file}' does not begin with [PAD], or lacks {', '.join(_SPECIAL[1:])}",
                hint="name a folder with BERT's vocab.txt",
            )
        return cls(pieces)

    def numbers(self, text: str, most: int) -> list[int]:
        """Return [CLS], the text's pieces and [SEP]; `most` numbers in all, what is longer is cut."""
        found = [number for word in _words(text) for number in self._word(word)]
        return [self._number["[CLS]"], *found[: most - 2], self._number["[SEP]"]]

    @cached_property
    def _number(self) -> dict[str, int]:
        return {piece: number for number, piece in enumerate(self.pieces)}

    def _word(self, word: str) -> list[int]:
        found: list[int] = []
        start = 0
        while start < len(word):
            ends = range(len(word), start, -1)
            prefix = "##" if start else ""
            end = next((end for end in ends if prefix + word[start:end] in self._number), None)
            if end is None or len(word) > _LONGEST:
                return [self._number["[UNK]"]]
            found.append(self._number[prefix + word[start:end]])
            start = end
        return found


def _words(text: str) -> list[str]:
    plain = unicodedata.normalize("NFD", text.lower())
    return _WORDS.findall(
        "".join(one for one in plain if unicodedata.category(one) != "Mn").replace("_", " _ ")
    )
