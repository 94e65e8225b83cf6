"""The doors of rooms: what a room's `__init__.pyi` offers, and a contract that nobody reaches past it.

Registered with import-linter in pyproject.toml, so that `lint-imports` checks it with the other contracts.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output

PACKAGE = Path(__file__).parent.parent / "mvcs"


def rooms() -> list[str]:
    """The rooms that are packages, by name."""
    return sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))


def door(room: str) -> dict[str, str]:
    """What a room offers: each name, and the module inside that has it (empty: the name is a module)."""
    stub = PACKAGE / room / "__init__.pyi"
    if not stub.exists():
        return {}
    lines = ast.parse(stub.read_text()).body
    found = [line for line in lines if isinstance(line, ast.ImportFrom)]
    return {alias.name: line.module or "" for line in found for alias in line.names}


class Doors(Contract):  # type: ignore[misc]  # import-linter ships no types
    """A module is imported from another room only by a name of that room's door.

    `beside`: modules that stand beside their room's door, for users to import by their own names.
    """

    beside = fields.SetField(subfield=fields.StringField(), required=False)

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: ARG002 - import-linter's
        """Tell every import that reaches past a door."""
        past = list(past_doors(graph, {str(module) for module in self.beside or ()}))
        return ContractCheck(kept=not past, metadata={"past": past})

    def render_broken_contract(self, check: Any) -> None:
        """Print where."""
        for importer, imported, line in check.metadata["past"]:
            output.print_error(f"{importer}:{line} imports {imported}, past the door of its room", bold=False)


def past_doors(graph: ImportGraph, beside: set[str]) -> Iterator[tuple[str, str, int]]:
    """Yield who imports which module past the door of its room, and on which line."""
    for room in rooms():
        inside = f"mvcs.{room}"
        open_to_all = {f"{inside}.{name}" for name, module in door(room).items() if not module} | beside
        for module in graph.find_descendants(inside) - open_to_all:
            for importer in graph.find_modules_that_directly_import(module):
                if not f"{importer}.".startswith(f"{inside}."):
                    details = graph.get_import_details(importer=importer, imported=module)
                    yield from ((importer, module, detail["line_number"]) for detail in details)
