"""Output as a page shows it against output as it came: what no two runs share is not compared."""

import re

ELSEWHERE = "..."  # a line that stands for any number of lines

# Pages show real ids, sizes and times. In order: an id is no size, a size is no number.
_VARYING = [
    (re.compile(r"\b[0-9a-f]{2}/(?=[0-9a-f]{64})"), ""),
    (re.compile(r"\b[0-9a-f]{7,64}\b"), "ID"),
    (re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?(\.\d+)?( ?[+-]\d\d:?\d\d|Z)?"), "TIME"),
    (re.compile(r"\b\d+ (second|minute|hour)s? ago"), "AGO"),
    (re.compile(r"\b[\d,.]+ ?(B|kB|MB|GB)(/s)?\b"), "SIZE"),
    (re.compile(r"\b[\d,.]+x(?=\W|$)"), "RATIO"),
    (re.compile(r"[-+]?\b\d+(\.\d+)? ?%"), "PERCENT"),
    (re.compile(r"[-+]?\b\d+\.\d+(e[-+]?\d+)?( ?(ms|s))?\b|[-+]?\b\d+e-\d+\b"), "NUMBER"),
    (re.compile(r"[█▉▊▋▌▍▎▏]+"), "BAR"),
    (re.compile(r"─+|-{3,}"), "RULE"),
    (re.compile(r"[ \t]+"), " "),
]


def comparable(text: str) -> list[str]:
    """The lines of ``text`` without what varies and without trailing space."""
    for pattern, name in _VARYING:
        text = pattern.sub(name, text)
    return [line.strip() for line in text.strip().splitlines()]


def agrees(shown: str, came: str) -> bool:
    """Whether a reader who was shown ``shown`` sees it in ``came``."""
    return _found(shown, came) is not None


def refreshed(shown: str, came: str) -> str:
    """What ``shown`` has of ``came``, which agrees, with the ids and numbers that came."""
    found, lines = _found(shown, came), came.rstrip().lstrip("\n").splitlines()
    assert found, "nothing is refreshed that does not agree"
    at = (lines[found.string.count("\n", 0, start)] for start in map(found.start, _groups(found)))
    return "".join(f"{ELSEWHERE if line == ELSEWHERE else next(at)}\n" for line in comparable(shown))


def _found(shown: str, came: str) -> re.Match[str] | None:
    """The lines of ``came`` that are shown, a group each."""
    pattern = "".join(
        r"(?:.*\n)*?" if line == ELSEWHERE else f"({re.escape(line)}\n)" for line in comparable(shown)
    )
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in comparable(came)))


def _groups(found: re.Match[str]) -> range:
    return range(1, found.re.groups + 1)
