"""The command line: what was typed becomes one call of `Repository`, and its answer is printed."""

from mvcs.cli.run import main

__all__ = ["main"]
