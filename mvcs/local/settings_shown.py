"""Settings as they may be shown."""

from typing import Any

from mvcs.addresses import HIDDEN, names_secret, tells_secret, without_secrets


def shown_setting(key: str, value: Any) -> Any:  # noqa: ANN401 - text, number or boolean
    """Return a value without the secrets that a person wrote into the file by hand."""
    name = key.rpartition(".")[2]
    is_option = key.startswith(("store.", "remote.")) and name != "url"
    if is_option and (names_secret(name) or tells_secret(value)):
        return HIDDEN
    return without_secrets(value) if isinstance(value, str) else value
