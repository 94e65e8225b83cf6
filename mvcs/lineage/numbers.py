"""Small numbers for values that repeat, so that the many rows that use them stay short."""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence

Key = tuple[str | None, ...]


class Numbers:
    """Finds the number of each value of a table with a `number` column, adding the values it lacks.

    It belongs to one writing transaction, which keeps others from taking the same number. Values of the call
    before are remembered: consecutive commits share most of them, and memory does not grow with a history.
    """

    def __init__(self, connection: sqlite3.Connection, table: str, key: Sequence[str], *rest: str) -> None:
        """Number the rows of `table`, whose columns are the unique ones of `key` and then `rest`."""
        self._connection = connection
        self._width = len(key)
        wanted = " AND ".join(f"{column} = ?" for column in key)
        self._find = f"SELECT number FROM {table} WHERE {wanted}"  # noqa: S608 - names of our own
        self._newest = f"SELECT max(number) FROM {table}"  # noqa: S608 - names of our own
        self._insert = insertion(table, "number", *key, *rest)
        self._known: dict[Key, int] = {}
        self._last: int | None = None

    def of(self, rows: Sequence[Key]) -> tuple[list[int], set[int]]:
        """Return the number of each row, in order, and the numbers that are new."""
        keys = [row[: self._width] for row in rows]
        known = {key: self._known[key] for key in keys if key in self._known}
        known |= self._stored(key for key in dict.fromkeys(keys) if key not in known)
        missing = {key: row for key, row in zip(keys, rows, strict=True) if key not in known}
        added = self._add(missing)
        self._known = known | added
        return [self._known[key] for key in keys], set(added.values())

    def _stored(self, keys: Iterable[Key]) -> dict[Key, int]:
        found: dict[Key, int] = {}
        for key in keys:
            for (number,) in self._connection.execute(self._find, key):
                found[key] = number
        return found

    def _add(self, missing: Mapping[Key, Key]) -> dict[Key, int]:
        if not missing:
            return {}
        first = self._next()
        numbers = {key: first + index for index, key in enumerate(missing)}
        self._connection.executemany(self._insert, [(numbers[key], *row) for key, row in missing.items()])
        self._last = first + len(missing) - 1
        return numbers

    def _next(self) -> int:
        if self._last is None:
            [(newest,)] = self._connection.execute(self._newest)
            self._last = newest or 0
        return self._last + 1


def insertion(table: str, *columns: str) -> str:
    """Return the statement that adds rows, given as tuples, to a table of ours."""
    marks = ", ".join("?" * len(columns))
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})"  # noqa: S608 - names of our own
