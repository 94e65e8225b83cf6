"""The rules of the house that no linter of ours knows."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from itertools import combinations
from pathlib import Path

import pytest

from tests.doors import door, rooms
from tests.prose import complaints, of_public_names

ROOT = Path(__file__).parent.parent
FOLDERS = ("mvcs", "mvcs_native", "migrations", "tests", "docs", "changelog.d", ".ci", ".github")

PROMISES = [
    "An id names content, never an encoding.",
    "Every read is verified.",
    "Nothing is lossy unless asked, and every commit says how exact it is.",
    "Interrupt it anywhere.",
    "Writers never wait for each other.",
    "Reading never executes code.",
    "Bounded.",
    "SQLite is a cache.",
]

# What the pages tell users to import from a room.
NAMED_BY_USERS = {
    "channels": ["MessageStore", "Quantizer", "Residuals"],
    "train": [
        "Checkpointer",
        "Evaluator",
        "Failure",
        "Probe",
        "ProbeEvery",
        "Resumed",
        "Stateful",
        "Timings",
        "channels",
        "probe",
    ],
    "reports": ["CommitInfo", "Restored"],
    "repository": ["Repository", "open_or_init"],
}


def texts(*suffixes: str, folders: tuple[str, ...] = (".", *FOLDERS)) -> Iterator[Path]:
    """The project's own text files, found without git: a test run from an export checks the same."""
    for path in sorted(
        path for folder in folders for path in (ROOT / folder).glob("*" if folder == "." else "**/*")
    ):
        # In a worktree of git `.git` is a file, which names a folder of the machine.
        own = path.is_file() and path.name != ".git" and "__pycache__" not in path.parts
        if own and (not suffixes or path.suffix in suffixes):
            yield path


def functions(source: str) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    nodes = ast.walk(ast.parse(source))
    return (node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def python(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], cwd=cwd, capture_output=True, text=True, check=True)


def test_rooms_import_only_rooms_below() -> None:
    program = "from importlinter.cli import lint_imports; raise SystemExit(lint_imports(no_cache=True))"
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_every_room_has_a_door_whose_names_are_there() -> None:
    for room in set(rooms()) - {"cli"}:
        package = import_module(f"mvcs.{room}")
        assert package.__all__ == sorted(door(room)), room
        assert all(getattr(package, name) is not None for name in package.__all__)


def test_a_door_offers_what_another_room_takes() -> None:
    taken = {room: set(NAMED_BY_USERS.get(room, ())) for room in rooms()}
    for path in (ROOT / "mvcs").rglob("*.py"):
        own = path.relative_to(ROOT / "mvcs").parts[0]
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mvcs."):
                room = str(node.module).split(".")[1]
                if room in taken and room != own:
                    taken[room].update(alias.name for alias in node.names)
    assert {
        room: sorted(set(door(room)) - taken[room]) for room in rooms() if set(door(room)) - taken[room]
    } == {}


def test_import_loads_nothing_heavy(tmp_path: Path) -> None:
    result = python("-c", "import sys, mvcs; mvcs.__version__; print(*sys.modules)", cwd=tmp_path)
    loaded = {name.partition(".")[0] for name in result.stdout.split()}
    assert not loaded & {"alembic", "click", "fsspec", "numpy", "rich", "s3fs", "sqlalchemy", "torch"}


@pytest.mark.parametrize("words", [["log"], ["compact", "--share", "1"]])
def test_what_needs_no_torch_loads_none(tmp_path: Path, words: list[str]) -> None:
    mvcs = str(Path(sys.executable).with_name("mvcs"))
    python(mvcs, "init", cwd=tmp_path)
    result = python("-X", "importtime", mvcs, *words, cwd=tmp_path)
    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in result.stderr.splitlines()}
    assert "mvcs" in loaded
    assert not loaded & {"torch", "s3fs", "aiobotocore"}


def test_nothing_but_the_package_is_imported_as_part_of_it() -> None:
    import mvcs

    assert {Path(folder).name for folder in mvcs.__path__} == {"mvcs"}


def test_public_names_resolve() -> None:
    exec("import mvcs; [getattr(mvcs, name) for name in mvcs.__all__]; from mvcs import *", {})  # noqa: S102 - what it says is what is tested


@pytest.mark.slow
def test_public_names_resolve_where_nothing_else_is_imported() -> None:
    python("-c", "import mvcs; [getattr(mvcs, name) for name in mvcs.__all__]; from mvcs import *")


def test_every_error_is_at_the_top() -> None:
    import mvcs

    found = {name for name in vars(mvcs.errors) if name.endswith("Error")}
    assert found <= set(mvcs.__all__)
    assert mvcs.StateError is mvcs.errors.StateError


def test_unknown_name_is_an_attribute_error() -> None:
    import mvcs

    with pytest.raises(AttributeError, match="nonesuch"):
        mvcs.nonesuch  # noqa: B018


@pytest.mark.parametrize("promise", PROMISES)
def test_readme_keeps_the_promise(promise: str) -> None:
    assert f"**{promise}**" in (ROOT / "README.md").read_text()


def test_every_module_says_what_it_is() -> None:
    # A whole parse takes a hundred times as long as a look at how a file begins.
    said = re.compile(r'(#.*\n|\s)*r?"""\s*\S')
    # A door's names stand in a file beside the one that says what the room is.
    paths = [path for path in texts(".py", ".pyi") if path.name != "__init__.pyi"]
    silent = [path for path in paths if not said.match(path.read_text())]
    assert silent == []


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """What a caller passes; the open repository goes without saying."""
    given = [node.arg for node in ast.walk(function.args) if isinstance(node, ast.arg)]
    return set(given) - {"self", "cls", "session"}


def forwards_to_a_namesake(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a body is one call of something of the same name, with what came in and nothing worked out."""
    body = [
        node
        for node in function.body
        if not isinstance(node, ast.Import | ast.ImportFrom)
        and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        and not (isinstance(node, ast.Assign) and isinstance(node.value, ast.Name | ast.Attribute))
    ]
    call = body[0].value if len(body) == 1 and isinstance(body[0], ast.Return | ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name | ast.Attribute):
        return False
    called = call.func.id if isinstance(call.func, ast.Name) else call.func.attr
    passed = [*call.args, *(keyword.value for keyword in call.keywords)]
    plain = ast.Name | ast.Attribute | ast.Starred | ast.Constant | ast.BoolOp
    names = {node.id for value in passed for node in ast.walk(value) if isinstance(node, ast.Name)}
    same = called.strip("_") == function.name.strip("_")
    whole = parameters(function) <= names and all(isinstance(value, plain) for value in passed)
    return bool(passed) and same and whole


def test_a_verb_stands_in_one_place() -> None:
    paths = sorted((ROOT / "mvcs/repository").rglob("*.py"))
    found = [(path.relative_to(ROOT), each) for path in paths for each in functions(path.read_text())]
    assert [f"{path}: {each.name}" for path, each in found if forwards_to_a_namesake(each)] == []
    twice = [
        f"{each.name}: {path} and {other}"
        for (path, each), (other, again) in combinations(found, 2)
        if each.name == again.name and path != other and len(parameters(each) & parameters(again)) >= 3
    ]
    assert twice == []


@pytest.mark.parametrize(
    ("source", "forwards"),
    [
        ("def push(self, a, b=0):\n    'Doc.'\n    return below.push(self._session, a, b=b or 1)", True),
        ("def push(self, a):\n    session = self._session\n    return session.resolver().push(a)", True),
        ("def status(self):\n    from x import status\n    return status(self._session)", True),
        ("def push(self, a):\n    return below.push(group(a))", False),
        ("def push(self, a, b):\n    return below.push(a)", False),
        ("def close(self):\n    self._session.close()", False),
        ("def push(self, a):\n    return below.send(a)", False),
    ],
)
def test_what_only_forwards_is_told_from_what_works(source: str, forwards: bool) -> None:
    (function,) = functions(source)
    assert forwards_to_a_namesake(function) is forwards


def test_one_module_reads_and_writes_the_bytes_of_manifests() -> None:
    """Repair alone asks it of bytes that lie elsewhere, or that it is about to put in their place."""
    names = re.compile(r"\bManifest\.decode\(|\b(?:de|en)code_placement\(")
    readers = {str(path.relative_to(ROOT)) for path in texts(".py") if names.search(path.read_text())}
    allowed = {"mvcs/store/manifests.py", "mvcs/upkeep/repairing/repair_commits.py"}
    assert {path for path in readers if path.startswith("mvcs/")} == allowed


def test_no_module_is_called_utils() -> None:
    named = [path for path in texts() if re.fullmatch(r"_?(utils?|helpers?|misc|common)", path.stem)]
    assert named == []


def test_no_file_names_a_machine() -> None:
    machine = re.compile(r"/(?:work|root|opt|home)/|/tmp/(?:venv|spec)|(?:pypi|pythonhosted)\.org")
    named = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in texts()
        for number, line in enumerate(path.read_bytes().decode(errors="replace").splitlines(), 1)
        if machine.search(line) and path != Path(__file__)
    ]
    assert named == []


def test_every_link_between_pages_leads_somewhere() -> None:
    link = re.compile(r"\]\((?!https?:|#)([^)#\s]+)(?:#[^)]*)?\)")
    broken = [
        f"{page.relative_to(ROOT)} -> {target}"
        for page in texts(".md")
        for target in link.findall(page.read_text())
        if not (page.parent / target).exists()
    ]
    assert broken == []


def anchors(page: Path) -> set[str]:
    """Where links into a page may lead: its headings, as a browser of repositories names them."""
    text = re.sub(r"^(```|~~~).*?^\1", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_link_into_a_page_finds_its_heading() -> None:
    link = re.compile(r"\]\((?!https?:)([^)#\s]*)#([^)\s]+)\)")
    broken = [
        f"{page.relative_to(ROOT)} -> {target}#{anchor}"
        for page in texts(".md")
        for target, anchor in link.findall(page.read_text())
        if anchor not in anchors(page.parent / target if target else page)
    ]
    assert broken == []


def test_every_module_on_the_map_is_there() -> None:
    pages = "\n".join((ROOT / "docs" / page).read_text() for page in ("ARCHITECTURE.md", "contributing.md"))
    rows = re.findall(r"^\|.*\|$", pages, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`([a-z_]+/[a-z_/]+(?:\.py)?)`", row)}
    places = {name: [ROOT / name, ROOT / "mvcs" / name, ROOT / "mvcs" / f"{name}.py"] for name in named}
    assert len(named) > 60
    assert [name for name, paths in places.items() if not any(path.exists() for path in paths)] == []


def test_the_picture_of_the_rooms_is_drawn_from_the_contracts() -> None:
    drawn = python("docs/house.py").stdout
    assert drawn == (ROOT / "docs/images/house.svg").read_text(), (
        "python docs/house.py > docs/images/house.svg"
    )


def test_every_kernel_has_a_line_in_the_list_of_kernels() -> None:
    source = ROOT / "mvcs_native/src"
    text = (source / "README.md").read_text()
    named = set(re.findall(r"^\| `([a-z0-9_]+/[a-z0-9_]+\.[a-z]pp)` \|", text, re.MULTILINE))
    assert named == {str(path.relative_to(source)) for path in source.rglob("*.?pp")}


def test_the_glossary_has_one_line_for_each_word() -> None:
    rows = re.findall(r"^\| ([^|]+) \|", (ROOT / "docs/glossary.md").read_text(), re.MULTILINE)
    words = [word for row in rows if row != "word" for word in row.split(", ")]
    assert sorted(words) == sorted(set(words))


def test_every_decision_has_a_status() -> None:
    pages = sorted((ROOT / "docs/design").glob("[0-9]*.md"))
    assert [page.name for page in pages if "\nStatus: " not in page.read_text()] == []


def test_sentences_of_pages_stay_short() -> None:
    pages = [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "SECURITY.md",
        *(ROOT / "docs").rglob("*.md"),
    ]
    found = [f"{page.relative_to(ROOT)}: {each}" for page in pages for each in complaints(page.read_text())]
    assert not found, "\n".join(found)


def test_sentences_of_docstrings_stay_short() -> None:
    modules = list(texts(".py", folders=("mvcs",)))
    found = [
        f"{path.relative_to(ROOT)}: {each}" for path in modules for each in of_public_names(path.read_text())
    ]
    assert not found, "\n".join(found)
