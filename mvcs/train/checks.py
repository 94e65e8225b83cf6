"""What a training hook can be given: settings that are out of range are refused before the first step."""

from mvcs.errors import UsageError


def check_settings(queue: int, on_full: str) -> None:
    """Refuse a queue without places, or another word for what happens when it is full."""
    if queue < 1:
        raise UsageError(f"queue cannot be {queue}", hint="give room for 1 or more snapshots")
    if on_full not in ("wait", "skip"):
        raise UsageError(f"on_full cannot be '{on_full}'", hint="use 'wait' or 'skip'")
