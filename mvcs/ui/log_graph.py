"""A history drawn as lanes: one column for each line of descent, newest commit first.

Lanes never move sideways: a lane that ends leaves a gap, which the next merge to its left may fill.
So there are only two kinds of connecting row: one above a commit, where lanes that wait for it join,
and one below a merge, where a lane opens for each further parent.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mvcs.ui.text import Screen

_ASCII = str.maketrans("│├─╮╯┼┴┬", "||-\\/+/\\")
_COLOURS, _COLUMNS = 6, 2


@dataclass(frozen=True)
class _Corner:
    """How a connecting row ends and passes on."""

    last: str
    between: str


_JOIN, _FORK = _Corner("╯", "┴"), _Corner("╮", "┬")


class Graph:
    """Draws commits that arrive children before parents; a parent that came too early just loses its line."""

    def __init__(self, screen: Screen) -> None:
        """Draw for `screen`."""
        self._screen = screen
        self._lanes: list[str | None] = []  # the commit each lane leads to
        self._drawn: set[str] = set()

    def beside(self) -> Screen:
        """Return the screen that is left beside the lanes of the next commit, with one that it may open."""
        return self._screen.narrowed(_COLUMNS * (len(self._lanes) + 1))

    def draw(self, identifier: str, parents: Sequence[str], text: Sequence[str]) -> Iterator[str]:
        """Yield the lines of one commit: its node beside the first line of `text`, lanes beside the rest."""
        column = self._column(identifier)
        joining = [lane for lane in self._leading_to(identifier) if lane != column]
        if joining:
            yield self._connect(column, joining, _JOIN).rstrip()
            self._end(joining)
        margins, indent = [self._node(column)], len(self._lanes)
        self._drawn.add(identifier)
        opened = self._continue(column, parents)
        if opened:
            margins.append(self._connect(column, opened, _FORK))
        for index in range(max(len(text), len(margins))):
            margin = margins[index] if index < len(margins) else self._straight(indent)
            yield f"{margin}{text[index] if index < len(text) else ''}".rstrip()

    def _leading_to(self, identifier: str) -> list[int]:
        return [lane for lane, target in enumerate(self._lanes) if target == identifier]

    def _column(self, identifier: str) -> int:
        waiting = self._leading_to(identifier)
        return waiting[0] if waiting else self._open(identifier, after=-1)

    def _open(self, identifier: str, after: int) -> int:
        for lane in range(after + 1, len(self._lanes)):
            if self._lanes[lane] is None:
                self._lanes[lane] = identifier
                return lane
        self._lanes.append(identifier)
        return len(self._lanes) - 1

    def _end(self, lanes: Sequence[int]) -> None:
        for lane in lanes:
            self._lanes[lane] = None
        while self._lanes and self._lanes[-1] is None:
            self._lanes.pop()

    def _continue(self, column: int, parents: Sequence[str]) -> list[int]:
        """Lead the commit's lane on to its first parent; return the lanes opened for the others."""
        ahead = [parent for parent in parents if parent not in self._drawn]
        if not ahead:
            self._end([column])
            return []
        self._lanes[column] = ahead[0]
        return [self._open(parent, after=column) for parent in ahead[1:]]

    def _straight(self, indent: int) -> str:
        """Draw every lane straight on; text keeps its place when the last lane has ended."""
        lanes = [*self._lanes, *[None] * (indent - len(self._lanes))]
        return self._row(["│" if target else " " for target in lanes])

    def _node(self, column: int) -> str:
        signs = ["│" if target else " " for target in self._lanes]
        signs[column] = "*"
        return self._row(signs)

    def _connect(self, column: int, targets: Sequence[int], corner: _Corner) -> str:
        """Draw a line from `column` to each of `targets`, all of them to its right."""
        end = max(targets)
        signs = []
        for lane, target in enumerate(self._lanes):
            sign = "│" if target else " "
            if lane == column:
                sign = "├"
            elif lane == end:
                sign = corner.last
            elif column < lane < end:
                sign = corner.between if lane in targets else "┼" if target else "─"
            signs.append(sign)
        return self._row(signs, bridge=range(column, end))

    def _row(self, signs: Sequence[str], bridge: range = range(0)) -> str:
        parts = [sign + ("─" if lane in bridge else " ") for lane, sign in enumerate(signs)]
        shown = [part if self._screen.unicode else part.translate(_ASCII) for part in parts]
        return "".join(self._screen.paint(part, f"lane{lane % _COLOURS}") for lane, part in enumerate(shown))
