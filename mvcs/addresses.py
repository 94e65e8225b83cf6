"""Addresses of stores, and which parts of them, and of a store's options, are secrets.

What may be a secret counts as one: to hide too much costs a second look, and to hide too little a key.
"""

import json
import re
from collections.abc import Callable, Mapping

HIDDEN = "***"
# There a user or a container stands before the host, and before other hosts a key or a token.
_NAMES_BEFORE_HOSTS = frozenset({"sftp", "ssh", "abfs", "abfss", "az", "adl", "smb", "hdfs", "webhdfs"})
_NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_.-]{0,62}")
_TOKEN = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])[A-Za-z0-9_-]{20,}")
# There signs of an address on the web are letters of a key like any other.
_OF_KEYS = frozenset(
    {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "hdfs", "sftp", "ssh", "smb", "file"}
)
_HARMLESS_PARAMETERS = frozenset({"versionid", "version", "generation", "region", "snapshot"})
_PARAMETER = re.compile(r"([?&#;])([^?&#;=]*)(=?)([^?&#;]*)")
_IN_TEXT = re.compile(r"[A-Za-z0-9+.:-]{0,64}://[^\s'\"<>]*")
_SECRET_NAME = re.compile(
    r"secret|passw|passphrase|passwd|pwd|token|credential|connection_?string|signature|bearer"
    r"|(access|private)_?key"
    r"|(^|[^a-z])(sig|sas|auth|authorization|cookie|key|keys|jwt|pat)($|[^a-z])|_?key$|apikey",
    re.IGNORECASE,
)
_ASSIGNED = re.compile(
    r"((?:account_?key|shared_?access_?(?:key|signature)|secret_?(?:access_?)?key|api_?key|private_?key|password)"
    r"[\"']?\s*=\s*[\"']?)([^\s\"'&;,]+)",
    re.IGNORECASE,
)
# A name as JSON, a header, a list of pairs or a connection string gives it a value.
_NAMED = re.compile(r"(?<![\w-])([\w-]++)(?:[\\\"']++\s*+[:=,]|\s*+[:=])")
_SCHEME = re.compile(r"\b(?:bearer|basic|digest|token)\s+\S", re.IGNORECASE)
_CHAIN = re.compile(r"::(?=[A-Za-z0-9+.-]+(?:://|::))")
_ADDRESS = re.compile(r"[A-Za-z0-9+.:-]*://")
_HOST_AND_PORT = re.compile(r"[^:@]*:[0-9]{1,5}")
HARMLESS_OPTIONS = frozenset(
    {
        "account_host",
        "account_name",
        "anon",
        "connect_timeout",
        "consistency",
        "default_block_size",
        "default_cache_type",
        "default_fill_cache",
        "default_location",
        "endpoint_url",
        "host",
        "location",
        "location_mode",
        "max_concurrency",
        "port",
        "profile",
        "project",
        "read_timeout",
        "region",
        "region_name",
        "requester_pays",
        "requests_timeout",
        "retries",
        "skip_instance_cache",
        "timeout",
        "use_listings_cache",
        "use_ssl",
        "username",
        "version_aware",
    }
)


def without_secrets(text: str) -> str:
    """Return an address, or a text that may hold some, fit to be shown: what is secret in it becomes ***."""
    if _ADDRESS.match(text):
        return _hidden(text)
    if "://" in text:
        text = _IN_TEXT.sub(lambda match: _hidden(match[0]), text)
    return _ASSIGNED.sub(lambda match: f"{match[1]}{HIDDEN}", text) if "=" in text else text


def _hidden(address: str) -> str:
    return "::".join(_shown(part) for part in _CHAIN.split(address))


def holds_secret(text: str) -> bool:
    """Tell whether an address, or the value of an option, holds what must not be written down."""
    return without_secrets(text) != text


def public_address(url: str) -> str:
    """Return an address without its secrets: what is left names the same place to whoever has his own key."""
    return "::".join(_public(part) for part in _CHAIN.split(url)) if holds_secret(url) else url


def may_be_written(key: str, value: object) -> bool:
    """Tell whether an option of a store is known to be harmless and holds a plain value without secrets."""
    return key in HARMLESS_OPTIONS and is_plain(value) and not tells_secret(value)


def is_plain(value: object) -> bool:
    """Tell whether a settings file can hold a value as it is; nested ones may hide secrets anywhere."""
    return isinstance(value, str | int | float | bool)


def tells_secret(value: object) -> bool:
    """Tell whether an option's value holds a secret, or gives a value to a secret's name anywhere in it.

    Texts are read as addresses, as JSON and as headers. This is stricter than what a message is held to.
    """
    if isinstance(value, Mapping):
        return any(names_secret(str(key)) or tells_secret(inner) for key, inner in value.items())
    if isinstance(value, list | tuple):
        return any(map(tells_secret, value))
    return isinstance(value, str) and (holds_secret(value) or _names_one(value) or tells_secret(_read(value)))


def _names_one(text: str) -> bool:
    bare = _IN_TEXT.sub(" ", text)  # a host with its port is no name with its value
    return bool(_SCHEME.search(bare)) or any(names_secret(found[1]) for found in _NAMED.finditer(bare))


def _read(text: str) -> object:
    """Return what a text says as JSON; of one nested too deep to be read, the name of a secret."""
    try:
        return json.loads(text)
    except ValueError:
        return None
    except RecursionError:
        return {"secret": text}


def names_secret(key: str) -> bool:
    """Tell whether an option's name says that its value is a secret."""
    return _SECRET_NAME.search(key) is not None


def secret_values(url: str, options: Mapping[str, object]) -> list[str]:
    """Return the texts that no message may repeat, longest first: a library may quote them anywhere."""
    found = [user for part in _CHAIN.split(url) if (user := _split(part)[1]) and user != _shown_user(part)]
    found += [piece for user in found for piece in user.split(":", 1) if len(piece) > 3]
    for key, value in options.items():
        if isinstance(value, Mapping):
            found += secret_values("", value)
        elif isinstance(value, str) and len(value) > 3 and names_secret(key):
            found.append(value)
    return sorted(set(found), key=len, reverse=True)


def _split(url: str) -> tuple[str, str, str]:
    """Split into protocol with `://`, what stands before the host, and the rest."""
    start, separator, rest = url.partition("://")
    if not separator:
        return "", "", url
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    user, at, _ = authority.rpartition("@")
    named = start.lower() in _NAMES_BEFORE_HOSTS
    if not (at and ":" not in user) and not (named and _HOST_AND_PORT.fullmatch(authority)):
        # A key may hold slashes and more: with a colon before it, all up to the last @ is taken for one.
        user = rest.rpartition("@")[0] if ":" in rest.rpartition("@")[0] else ""
    return f"{start}://", user, rest[len(user) + 1 :] if user else rest


def _shown_user(url: str) -> str:
    start, user, _ = _split(url)
    harmless = (
        start[:-3].lower() in _NAMES_BEFORE_HOSTS and _NAME.fullmatch(user) and not _TOKEN.fullmatch(user)
    )
    return user if harmless or not user else HIDDEN


def _shown(url: str) -> str:
    start, user, rest = _split(url)
    shown = f"{_shown_user(url)}@" if user else ""
    return f"{start}{shown}{_parameters(start, rest, _shown_parameter)}"


def _shown_parameter(match: re.Match[str]) -> str:
    sign, name, equals, value = match.groups()
    if equals and (not value or name.lower() in _HARMLESS_PARAMETERS):
        return match[0]
    if not equals:
        return f"{sign}{HIDDEN}" if name else sign
    return f"{sign}{name}{equals}{HIDDEN}"


def _public(url: str) -> str:
    start, user, rest = _split(url)
    kept = f"{user}@" if user and _shown_user(url) == user else ""
    return f"{start}{kept}{_parameters(start, rest, _public_parameter)}"


def _parameters(start: str, rest: str, replaced: Callable[[re.Match[str]], str]) -> str:
    """Replace the parameters of an address; in a store of keys only those that look like secrets are some."""
    by_key = start[:-3].lower() in _OF_KEYS

    def of_key(match: re.Match[str]) -> str:
        _, name, equals, value = match.groups()
        told = names_secret(name) if equals else False
        return replaced(match) if told or _TOKEN.fullmatch(value or name) else match[0]

    return _PARAMETER.sub(of_key if by_key else replaced, rest) if start else rest


def _public_parameter(match: re.Match[str]) -> str:
    return match[0] if _shown_parameter(match) == match[0] else ""
