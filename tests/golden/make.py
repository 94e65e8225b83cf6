"""Write the golden files of the format this version writes: `python -m tests.golden.make` at the top.

With a coder's name, `python -m tests.golden.make huffman`, those of a history whose codes it wrote; with
`kinds`, those of each kind of leaf, form and encoding.

Run it once when a format is new, keep what it wrote, and never again: old files stay as they were written.
"""

import json
import pathlib
import shutil
import sys
import tempfile

from mvcs.local.store_description import FORMAT
from mvcs.repository import Repository
from tests.golden import kinds
from tests.golden.history import STEPS, digest, state, write_files

HERE = pathlib.Path(__file__).parent


def commit_all(repository: Repository, top: pathlib.Path) -> None:
    """Make the history: an exact commit, bounded ones, files on a branch, a tag, a note, a dropped layer."""
    repository.config_set("user.name", "Ada")
    repository.commit(state(0), message="exact", step=0, metrics={"loss": 2.0})
    for step in range(1, STEPS + 1):
        metrics = {"loss": 2 - step / 8}
        repository.commit(state(step), message=f"bounded {step}", step=step, metrics=metrics, bins=16)
        if step == 1:
            repository.create_tag("first", message="keeps its exact layer")
    repository.note("main~1", {"accuracy": 0.75})
    repository.switch("Files/a", create_from="main")
    write_files(top)
    repository.commit_files([top / "model"], message="files", step=9)


def described(repository: Repository) -> dict[str, object]:
    """Return what a reader must find."""
    commits = []
    for info in repository.log(all_branches=True):
        tree = repository.cat_file(info.id).value
        restored = digest(repository.checkout(info.id, numpy=True))
        layer = repository.restore(info.id, numpy=True).layer
        commits.append({"id": info.id, "tree": dict(tree)["tree"], "step": info.step, "layer": layer})
        commits[-1] |= {"exactness": info.exactness, "restored": restored}
    return {
        "commits": commits,
        "branches": {branch.name: branch.commit for branch in repository.branches()},
        "tags": {tag.name: tag.commit for tag in repository.tags()},
        "notes": [note.metrics for note in repository.notes("main~1")],
    }


def main(coder: str = "auto") -> None:
    """Write the folder of this format, or of a coder; refuse when it is there."""
    target = HERE / (f"v{FORMAT}" if coder == "auto" else coder)
    if coder == "kinds":
        kinds.make(target)
        return
    with tempfile.TemporaryDirectory() as folder:
        top = pathlib.Path(folder)
        with Repository.init(top, store=str(top / "store")) as repository:
            repository.config_set("delta.coder", coder)
            commit_all(repository, top)
            expected = described(repository)
        shutil.rmtree(top / "store/tmp")
        target.mkdir()
        shutil.copytree(top / "store", target / "store")
    (target / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
