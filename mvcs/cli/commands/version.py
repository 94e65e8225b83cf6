"""`mvcs version`: which version this is."""

from importlib.metadata import version

from mvcs.cli.declaration import command as declare
from mvcs.cli.session import Session


@declare("version", "which version this is", example="mvcs version")
def command(session: Session) -> None:
    """Show the version, as `mvcs --version` does."""
    found = version("mvcs")
    session.answer({"version": found}, [f"mvcs {found}"])
