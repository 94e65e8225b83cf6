"""The restricted loader of torch, and from which version on foreign files are given to it."""

import pathlib
import re

from mvcs.errors import UnsafeFileError

# Known are files that run code in spite of `weights_only=True` up to 2.5.1 (CVE-2025-32434), and files that
# damage memory, which may run code, up to 2.9.1 (CVE-2026-24747).
SAFE_SINCE = (2, 10)
_VERSION = re.compile(r"([0-9]{1,6})\.([0-9]{1,6})(?:\.[0-9]+)*(\.?(?:a|b|rc|dev)[0-9]*)?.*", re.DOTALL)


def is_safe(version: str) -> bool:
    """Tell whether no way around the restricted loader of a version of torch is published.

    What comes before a release may lack what the release mended, so it counts as older. A version that cannot
    be read counts as old.
    """
    match = _VERSION.fullmatch(version)
    if match is None:
        return False
    release = int(match[1]), int(match[2])
    return release > SAFE_SINCE or (release == SAFE_SINCE and match[3] is None)


def require_safe(version: str, path: pathlib.Path) -> None:
    """Check that a file may be given to the restricted loader.

    Raises:
        UnsafeFileError: this version of torch may run code that is in the file; nothing was run.
    """
    if not is_safe(version):
        needed = ".".join(map(str, SAFE_SINCE))
        raise UnsafeFileError(
            f"'{path}' is not read with torch {version}: ways around its restricted loader are known",
            hint=f"files of torch.save are read with torch {needed} or newer; a file of safetensors with any",
        )
