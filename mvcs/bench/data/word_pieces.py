"""Texts as numbers of word pieces, as BERT's uncased models have them."""

import re
import unicodedata
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from mvcs.errors import FileFormatError, NotFoundError

PAD = 0

_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
_WORDS = re.compile(r"\w+|[^\w\s]")
_LONGEST = 100


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
