"""Verbs about the repository itself: settings, the lineage index, background failures."""

from typing import Any

from mvcs.config import MAX_BYTES
from mvcs.local import UserConfig, check_place, shown_setting
from mvcs.repository.failure_log import FailureLog
from mvcs.repository.quota import Quota
from mvcs.repository.verbs.base import Verbs


class Settings(Verbs):
    """Verbs about the repository itself."""

    def config_get(self, key: str, *, own: bool = True) -> Any:  # noqa: ANN401 - text, number or boolean
        """Return a setting or its default, fit to be shown.

        Args:
            key: the setting.
            own: where the repository has none, the user's own counts, as it does for commits.
        """
        place = self._session.place
        value = place.config.get(key)
        if value is None and own and key in UserConfig.TEXTS:
            value = place.trust.config.get(key)
        return shown_setting(key, value)

    def config_set(self, key: str, value: str, *, plain: bool = False) -> None:
        """Change a setting; `plain` writes an option of a store that is not known to be harmless."""
        place, section = self._session.place, key.removesuffix(".url")
        if section != key and key.startswith(("store.", "remote.")):
            check_place(place.trust, section, value, {}, plain=plain)
        place.config.set(key, value, plain=plain)
        told = Quota.of(place.backend, place.config).told if key == MAX_BYTES else None
        if told:
            self._session.progress.note(told)

    def config_unset(self, key: str) -> None:
        """Remove a setting."""
        self._session.place.config.unset(key)

    def config_list(self, *, own: bool = False) -> dict[str, Any]:
        """Return every setting of the repository, with `own` also the user's, fit to be shown."""
        place = self._session.place
        found = {**(place.trust.config.items() if own else {}), **place.config.items()}
        return {key: shown_setting(key, value) for key, value in sorted(found.items())}

    @property
    def lossy_restores(self) -> int:
        """How often this process was given states of the project that differ from what was handed over."""
        return self._session.given.lossy

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
        FailureLog(self._session.place.local).note(text)
