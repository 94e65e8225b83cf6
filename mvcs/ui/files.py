"""One file of a commit."""

from typing import TYPE_CHECKING

from mvcs.ui.details import tensor_table
from mvcs.ui.terminal.screen import Screen
from mvcs.ui.terminal.sizes import count, size
from mvcs.ui.terminal.text import lines, printable
from mvcs.ui.terminal.values import listed, value_text

if TYPE_CHECKING:
    from mvcs.restore import FileDetails


def file_details(found: "FileDetails", screen: Screen, limit: int | None) -> list[str]:
    """Return the tensors of a file, the text of another, or the files of a folder."""
    if found.content is not None:
        return _content(found, found.content)
    if found.files:
        return [printable(path) for path in found.files]
    short = screen.paint(found.commit.short, "id")
    title = f"{short}:{printable(found.path)}  {found.format}, {size(found.raw_bytes)}"
    said = ((path, value_text(value)) for path, value in found.values.items())
    values = listed(said, None if limit is None else "--all")
    table = tensor_table(found.tensors, screen, limit)
    return [title, *(["", *table] if table else []), *(["", *values] if values else [])]


def _content(found: "FileDetails", content: bytes) -> list[str]:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        what = f"{count(len(content), 'byte')} that are no text"
        return [f"{what}: 'mvcs checkout {found.commit.short}:{printable(found.path)} -o FILE' writes them"]
    return lines(text.removesuffix("\n"))
