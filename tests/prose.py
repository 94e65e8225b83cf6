"""Sentences of pages and of docstrings, and how many words each has."""

import ast
import re
from collections.abc import Iterator

LONGEST = 45
AVERAGE = 25

WORD = re.compile(r"[A-Za-z0-9][\w'’.,%×-]*")
# A colon ends a sentence only where a new one begins behind it, as in front of a quotation.
END = re.compile(r"(?<=[.!?:;])[*_)\"”’']*\s+(?=[A-Z*\"'“`(]|CODE)")
ITEM = re.compile(r"\n\s*\n|^#+ .*$|^\s*(?:>\s*)?[-*+] |^\s*\d+\. |^\s*:(?= )|^\s*>\s*$", re.MULTILINE)
# Also an entry under Args, Returns or Raises: a name at the start of a line, and what it is.
ENTRY = re.compile(ITEM.pattern + r"|^\s*(?:[A-Z][a-z]+:\s*$|\*{0,2}[\w.]+:(?=\s))", re.MULTILINE)

ASIDE = [
    (re.compile(r"^([ >]*)(```|~~~).*?^[ >]*\2[ \t]*$", re.MULTILINE | re.DOTALL), "\n\n"),
    (re.compile(r"<!--.*?-->", re.DOTALL), "\n\n"),
    (re.compile(r"^\s*\|.*\|\s*$", re.MULTILINE), "\n\n"),
    (re.compile(r"(?<=\n\n)(?: {4}[^\n]*\n)+(?=\n|\Z)"), "\n"),
    (re.compile(r"!\[[^\]]*\]\([^)]*\)"), ""),
    (re.compile(r"\[([^\]]*)\]\([^)]*\)"), r"\1"),
    (re.compile(r"``.+?``|`[^`]*`", re.DOTALL), "CODE"),
]


def prose(text: str) -> str:
    """The text without code blocks, tables and pictures; code within a sentence counts as one word."""
    for pattern, instead in ASIDE:
        text = pattern.sub(instead, text)
    return text


def sentences(text: str, apart: re.Pattern[str] = ITEM) -> Iterator[tuple[int, str]]:
    """Each sentence with its count of words; headings are none, items of a list are each their own."""
    for block in apart.split(prose(text)):
        for sentence in END.split(" ".join(block.split())):
            if count := len(WORD.findall(sentence)):
                yield count, sentence


def complaints(text: str, apart: re.Pattern[str] = ITEM) -> list[str]:
    """What is too long in a text: each sentence over the limit, and the average."""
    counted = list(sentences(text, apart))
    average = sum(count for count, _ in counted) / max(len(counted), 1)
    long = [f"{count} words: {sentence}" for count, sentence in counted if count > LONGEST]
    return long + [f"{average:.1f} words a sentence on average"] * (average > AVERAGE)


def docstrings(node: ast.AST) -> Iterator[str]:
    """Docstrings of a module, and of each public class and function in it."""
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        yield ast.get_docstring(node) or ""
    for child in node.body if isinstance(node, ast.Module | ast.ClassDef) else ():
        if not getattr(child, "name", "_").startswith("_"):
            yield from docstrings(child)


def of_public_names(source: str) -> list[str]:
    """What is too long in a module's docstrings."""
    return complaints("\n\n".join(docstrings(ast.parse(source))), ENTRY)
