"""`mvcs completion`: what makes a shell complete commands, branches, steps, files and tensors."""

import os
from pathlib import Path

import click

from mvcs.cli.completion import SHELLS, script
from mvcs.cli.declaration import command as declare
from mvcs.cli.session import Session

EXAMPLE = """
mvcs completion bash >> ~/.bashrc
mvcs completion zsh >> ~/.zshrc
mvcs completion fish > ~/.config/fish/completions/mvcs.fish
"""


@declare("completion", "have the shell complete what you type", example=EXAMPLE)
@click.argument("shell", type=click.Choice(SHELLS), required=False)
def command(session: Session, shell: str | None) -> None:
    """Print the script that makes SHELL (default: that of $SHELL) complete what is typed behind `mvcs`.

    It knows commands and options, and of the repository branches, tags, step:N, best:METRIC, remotes,
    files, settings and tensors. A store that is not on this machine is not asked.
    """
    chosen = shell or Path(os.environ.get("SHELL", "")).name
    if chosen not in SHELLS:
        raise click.UsageError(f"name a shell: {', '.join(SHELLS)}")
    text = script(chosen)
    session.answer({"shell": chosen, "script": text}, [text.rstrip("\n")])
