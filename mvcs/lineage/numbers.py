"""Small numbers for values that repeat, so that the many rows that use them stay short."""

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, Table, func, insert, select, tuple_

Key = tuple[str, ...]

# Keys looked up by one statement; four columns of them stay below SQLite's limit of bound values.
LOOK_UP = 200


class Numbers:
    """Finds the number of each value of a table with a `number` column, adding the values it lacks.

    It belongs to one writing transaction, which keeps others from taking the same number. Values of the call
    before are remembered: consecutive commits share most of them, and memory does not grow with a history.
    """

    def __init__(self, connection: Connection, table: Table, key: Sequence[str]) -> None:
        self._connection = connection
        self._table = table
        self._key = key
        self._known: dict[Key, int] = {}
        self._last: int | None = None

    def of(self, rows: Sequence[Mapping[str, str | None]]) -> tuple[list[int], set[int]]:
        """Return the number of each row, in order, and the numbers that are new."""
        keys = [tuple(str(row[name]) for name in self._key) for row in rows]
        known = {key: self._known[key] for key in keys if key in self._known}
        known |= self._stored([key for key in dict.fromkeys(keys) if key not in known])
        missing = {key: row for key, row in zip(keys, rows, strict=True) if key not in known}
        added = self._add(missing)
        self._known = known | added
        return [self._known[key] for key in keys], set(added.values())

    def _stored(self, keys: Sequence[Key]) -> dict[Key, int]:
        columns = [self._table.c[name] for name in self._key]
        found: dict[Key, int] = {}
        for start in range(0, len(keys), LOOK_UP):
            wanted = tuple_(*columns).in_(keys[start : start + LOOK_UP])
            for number, *key in self._connection.execute(
                select(self._table.c.number, *columns).where(wanted)
            ):
                found[tuple(key)] = number
        return found

    def _add(self, missing: Mapping[Key, Mapping[str, str | None]]) -> dict[Key, int]:
        if not missing:
            return {}
        first = self._next()
        numbers = {key: first + index for index, key in enumerate(missing)}
        self._connection.execute(
            insert(self._table), [{"number": numbers[key], **row} for key, row in missing.items()]
        )
        self._last = first + len(missing) - 1
        return numbers

    def _next(self) -> int:
        if self._last is None:
            self._last = self._connection.execute(select(func.max(self._table.c.number))).scalar() or 0
        return self._last + 1
