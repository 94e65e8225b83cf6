"""Verbs about the repository itself: settings, the lineage index, background failures."""

from typing import Any

from mvcs.repository.verbs.base import Verbs


class Settings(Verbs):
    """Verbs about the repository itself."""

    def config_get(self, key: str) -> Any:  # noqa: ANN401 - text, number or boolean
        """Return a setting or its default."""
        return self._session.place.config.get(key)

    def config_set(self, key: str, value: str) -> None:
        """Change a setting."""
        self._session.place.config.set(key, value)

    def config_unset(self, key: str) -> None:
        """Remove a setting."""
        self._session.place.config.unset(key)

    def config_list(self) -> dict[str, Any]:
        """Return every setting that was made."""
        return dict(self._session.place.config.items())

    def lineage_rebuild(self) -> Any:  # noqa: ANN401 - the index's own report
        """Make the lineage index anew from the store."""
        return self._session.indexing.rebuild()

    def lineage_status(self) -> dict[str, Any]:
        """Return where the index lies, whether it is usable, and how many commits it knows."""
        return self._session.indexing.status()

    def lineage_query(self, sql: str, limit: int = 1000) -> tuple[list[str], list[tuple[object, ...]]]:
        """Ask the index in SQL; it is opened read-only."""
        return self._session.indexing.lineage.query(sql, limit)

    def report_failure(self, text: str) -> None:
        """Keep what went wrong in the background, for `status` to show."""
        self._session.report_failure(text)
