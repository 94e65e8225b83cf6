"""Settings as they may be shown."""

from typing import Any

from mvcs.addresses import HIDDEN, names_secret, without_secrets


def shown(key: str, value: Any) -> Any:  # noqa: ANN401 - text, number or boolean
    """Return a value without the secrets that a person wrote into the file by hand."""
    if key.startswith(("store.", "remote.")) and names_secret(key.rpartition(".")[2]):
        return HIDDEN
    return without_secrets(value) if isinstance(value, str) else value
