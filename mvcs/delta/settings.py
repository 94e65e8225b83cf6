"""What a writer chooses among; readers know every encoding, whatever was chosen."""

from dataclasses import dataclass
from typing import Final, Literal

CodeCoder = Literal["auto", "huffman"]


@dataclass(frozen=True)
class EncoderSettings:
    """What may be made use of to write entries.

    Attributes:
        coder: of codes of one byte: "auto" takes whichever is smallest; "huffman" takes run lengths and
            Huffman codes for each source bucket (Inshrinkerator, section 6), and no rANS. Codes of two bytes,
            those of lattices, have no such coder, and keep theirs.
        zero_bits: differences to a base may leave out low bits that are zero in all words.
    """

    coder: CodeCoder = "auto"
    zero_bits: bool = True


ALL_ENCODINGS: Final = EncoderSettings()
