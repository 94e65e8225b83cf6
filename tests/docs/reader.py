"""A reader who types what a page says, in a folder of their own, and looks at what comes."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.docs.output import ELSEWHERE, agrees, refreshed
from tests.docs.pages import Block, Step, blocks
from tests.docs.programs import Interpreter, Shell

_FAILED = re.compile(
    r"^(mvcs: error: |Killed$|\d+ problems?: )", re.MULTILINE
)  # which a page has to show, like all output


@dataclass
class Reader:
    """Follows a page from its first block to its last.

    Args:
        page: the page.
        folder: a fresh folder, the current one in the beginning.
        environment: what programs get.
        stands_for: what the page writes, and what that is here: a server's address, the folder.
        given: code that is run before the page: what its reader has already. It sees the names of snippets.
    """

    page: Path
    folder: Path
    environment: Mapping[str, str]
    stands_for: Mapping[str, str]
    given: str = ""
    seen: list[tuple[Step, str]] = field(default_factory=list)

    def follow(self) -> None:
        """Do what every block says; what came is in ``seen``."""
        shell, python = Shell(self.folder, self.environment), None
        if self.given or any(block.language == "python" and not block.file for block in blocks(self.page)):
            python = Interpreter(self.folder, self.environment)
            self.run(python, self.given)
        try:
            self._follow(shell, python)
        finally:
            for program in filter(None, (shell, python)):
                program.close()

    def _follow(self, shell: Shell, python: Interpreter | None) -> None:
        printed = ""
        for block in blocks(self.page):
            if block.language == "console" and block.runs:
                self.type(shell, block)
            elif block.language == "text":
                self.look(Step("", block.text, block.begin, block.begin + len(block.text)), printed)
            elif block.file:
                (self.folder / block.file).write_text(self.here(block.text))
            elif block.runs and python:
                printed = self.run(python, block.text)

    def type(self, shell: Shell, block: Block) -> None:
        """Type the commands of a console block. One that fails without a word is no page's."""
        for step in block.steps():
            status, came = shell.run(self.here(step.command))
            self.look(step, came)
            assert status == 0 or _FAILED.search(came), f"{self.page.name}: {step.command}{came}"

    def run(self, python: Interpreter, code: str) -> str:
        """What a Python block printed, which has to run to its end."""
        status, came = python.run(self.here(code))
        assert status == 0, f"{self.page.name}: {code}\n{came}"
        return came

    def look(self, step: Step, came: str) -> None:
        """Remember what came where something is shown."""
        self.seen.append((step, self.there(came)))

    @property
    def changes(self) -> list[str]:
        """What came otherwise than shown, each behind its command."""
        return [f"$ {step.command}{came}" for step, came in self.seen if not agrees(step.output, came)]

    def here(self, text: str) -> str:
        """Text of the page with what its names stand for."""
        for name, real in self.stands_for.items():
            text = text.replace(name, real)
        return text

    def there(self, text: str) -> str:
        """Output in the words of the page."""
        for name, real in self.stands_for.items():
            text = text.replace(real, name)
        return text

    def rewrite(self) -> None:
        """Put what came into the page; where output that agrees leaves lines out, they stay out."""
        text = self.page.read_text()
        for step, came in reversed(self.seen):
            kept = f"{ELSEWHERE}\n" in step.output and agrees(step.output, came)
            shown = refreshed(step.output, came) if kept else came.rstrip() + "\n" * bool(came.strip())
            text = text[: step.begin] + shown + text[step.end :]
        self.page.write_text(text)
