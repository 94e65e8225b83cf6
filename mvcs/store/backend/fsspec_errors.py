"""What file systems of fsspec raise, told as errors of ours: what failed on what, without secrets."""

import contextlib
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mvcs.addresses import HIDDEN, without_secrets
from mvcs.errors import ConflictError, NotFoundError, StorageError, UsageError, meant

_LOST_RACE = (409, 412)
_NO_SUCH_BUCKET = "NoSuchBucket"
_S3_OPTIONS = ("endpoint_url", "key", "secret", "token", "profile", "anon", "client_kwargs", "config_kwargs")
_AMAZON = "amazonaws.com"
_UNKNOWN = re.compile(r"unexpected keyword argument '(\w+)'")
_CHECK = "check the address, the credentials and the network, then try again"
_ENDPOINT = "; a bucket that is not Amazon's needs --option endpoint_url=URL, or AWS_ENDPOINT_URL"


@dataclass(frozen=True)
class FsspecErrors:
    """Translates what one file system raises.

    Attributes:
        url: its address, without secrets.
        secrets: what its library was given and nobody may hear.
        options: names of the options that somebody gave.
    """

    url: str
    secrets: Collection[str]
    options: Collection[str]

    @contextlib.contextmanager
    def translated(self, verb: str, name: str, bucket: str) -> Iterator[None]:
        """Raise errors of ours for what is raised meanwhile.

        Args:
            verb: what is done.
            name: with which file.
            bucket: in which bucket it is, where there are any.

        Raises:
            NotFoundError: there is no such file.
            ConflictError: it exists already.
            StorageError: anything else.
        """
        try:
            yield
        except StorageError:
            raise
        except FileNotFoundError as error:
            self._check_bucket(verb, name, bucket, error)
            raise NotFoundError(f"cannot {verb} '{name}' in '{self.url}': no such file") from error
        except FileExistsError as error:
            raise ConflictError(f"'{name}' exists already in '{self.url}'") from error
        except Exception as error:  # every fsspec file system raises its own kinds
            if status(error) in _LOST_RACE:
                raise ConflictError(f"'{name}' exists already in '{self.url}'") from error
            if status(error) == 404:
                self._check_bucket(verb, name, bucket, error)
                raise NotFoundError(f"cannot {verb} '{name}' in '{self.url}': no such file") from error
            self.check_option(error)
            raise StorageError(
                f"cannot {verb} '{name}' in '{self.url}': {self.quoted(_reason(error))}",
                hint=_CHECK + (_ENDPOINT if _AMAZON in str(error) else ""),
            ) from error

    def check_option(self, error: Exception) -> None:
        """Raise where a library does not know an option that somebody gave.

        Raises:
            UsageError: it does not.
        """
        found = _UNKNOWN.search(str(error)) if isinstance(error, TypeError) else None
        if found is None or found[1] not in self.options:
            return
        is_s3 = self.url.startswith("s3://")
        near = meant(found[1], _S3_OPTIONS) if is_s3 else ""
        raise UsageError(
            f"cannot open '{self.url}': there is no option '{found[1]}'",
            hint=f"{near} --option takes what the file system of fsspec takes".lstrip()
            + (", such as endpoint_url for an S3 store" if is_s3 and not near else ""),
        ) from error

    def quoted(self, text: str) -> str:
        """Return a library's words without the secrets it was given."""
        for secret in self.secrets:
            text = text.replace(secret, HIDDEN)
        return without_secrets(text)

    def _check_bucket(self, verb: str, name: str, bucket: str, error: Exception) -> None:
        """Raise where a file is missing because all of its bucket is: that is no empty store."""
        if _answer(error).get("Error", {}).get("Code") == _NO_SUCH_BUCKET:
            raise StorageError(
                f"cannot {verb} '{name}' in '{self.url}': bucket '{bucket}' does not exist",
                hint="mvcs makes no buckets: make it where the store is, or check its name and the endpoint",
            ) from error


def _answer(error: BaseException | None) -> Mapping[str, Any]:
    """Find what a server answered below an error; s3fs hides a failed condition in a bare OSError."""
    while error is not None:
        response = getattr(error, "response", None)
        if isinstance(response, Mapping):
            return response
        error = error.__cause__
    return {}


def status(error: BaseException) -> int | None:
    """Return the HTTP status below an error."""
    status: int | None = _answer(error).get("ResponseMetadata", {}).get("HTTPStatusCode")
    return status


def _reason(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
