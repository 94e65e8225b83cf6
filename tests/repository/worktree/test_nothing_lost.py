"""Whatever is committed, left out, switched to and checked out: no content goes that is stored nowhere."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from safetensors.numpy import save_file

from mvcs import Repository
from mvcs.errors import ConflictError, NotFoundError, UsageError

NAMES = (
    "a.safetensors",
    "run/b.safetensors",
    "run/step_1.safetensors",
    "run/step_2.safetensors",
    "run/notes",
)
names = st.sampled_from(NAMES)


class Folder(RuleBasedStateMachine):
    """A folder whose owner writes, commits and goes back and forth, and never uses force."""

    def __init__(self) -> None:
        super().__init__()
        self.top = Path(tempfile.mkdtemp(prefix="mvcs-test-"))
        self.repo = Repository.init(self.top)
        self.repo.config_set("retention.exact_layers", "1")
        self.written = 0
        self.values: dict[str, set[tuple[str, bytes]]] = {}
        self.before: dict[str, bytes] = {}

    def teardown(self) -> None:
        self.repo.close()
        shutil.rmtree(self.top)

    def content(self) -> dict[str, bytes]:
        return {name: (self.top / name).read_bytes() for name in NAMES if (self.top / name).is_file()}

    def stored(self) -> Iterator[tuple[str, bytes]]:
        """What any commit gives back, in either layer, as it is now."""
        for commit, values in self.values.items():
            yield from values
            if self.repo.resolve(commit).exact_layer == "kept":
                yield from self.restored(commit, exact=True)

    def restored(self, rev: str, *, exact: bool) -> set[tuple[str, bytes]]:
        files = self.repo.show(rev).files or []
        with tempfile.TemporaryDirectory() as scratch:
            target = Path(scratch) / "out"
            if len(files) == 1:
                target = target / Path(files[0]).name
            if files:
                self.repo.export(rev, target, exact=exact)
            paths = {name: target if len(files) == 1 else target / name for name in files}
            return {(name, path.read_bytes()) for name, path in paths.items()}

    @invariant()
    def nothing_is_lost(self) -> None:
        now = self.content()
        gone = {(name, data) for name, data in self.before.items() if now.get(name) != data}
        self.before = now
        assert not gone or gone <= set(self.stored()), [name for name, _ in gone]

    @rule(name=names, size=st.sampled_from([(4, 4), (24, 24)]))
    def write(self, name: str, size: tuple[int, int]) -> None:
        self.written += 1
        path = self.top / name
        path.parent.mkdir(exist_ok=True)
        if path.suffix:
            values = np.random.default_rng(self.written).standard_normal(size).astype(np.float32)
            save_file({"w": values, "b": np.zeros(8, np.float32)}, path)
        else:
            path.write_text(str(self.written))
        self.before = self.content()

    @rule(name=names)
    def remove_by_hand(self, name: str) -> None:
        (self.top / name).unlink(missing_ok=True)
        self.before = self.content()

    @rule(name=st.sampled_from([*NAMES[:4], "run"]), only=st.booleans(), bins=st.sampled_from([None, 4]))
    def commit(self, name: str, only: bool, bins: int | None) -> None:
        path = self.top / name
        if path.is_file() or (path.is_dir() and any(path.iterdir())):
            self.repo.commit_files([path], message=str(self.written), only=only, bins=bins)
            self.check_head()

    @precondition(lambda self: self.repo.head() is not None)
    @rule(name=st.sampled_from([*NAMES, "run"]), cached=st.booleans())
    def leave_out(self, name: str, cached: bool) -> None:
        try:
            self.repo.remove_files([self.top / name], message="less", cached=cached)
        except (ConflictError, NotFoundError):
            return
        self.check_head()

    @precondition(lambda self: self.repo.head() is not None)
    @rule(back=st.integers(0, 3), exact=st.booleans())
    def go_back(self, back: int, exact: bool) -> None:
        try:
            self.repo.checkout_files(f"main~{back}", exact=exact)
        except (ConflictError, NotFoundError):
            return
        assert {entry.state for entry in self.repo.status().entries if entry.path in self.files()} <= {
            "unmodified"
        }

    @precondition(lambda self: self.repo.head() is not None)
    @rule(branch=st.sampled_from(["main", "side"]), fresh=st.booleans())
    def change_branch(self, branch: str, fresh: bool) -> None:
        with contextlib.suppress(ConflictError, NotFoundError, UsageError):
            self.repo.switch(branch, create_from="HEAD" if fresh else None)

    def files(self) -> list[str]:
        return self.repo.show().files or []

    def check_head(self) -> None:
        """A commit can be read back, in each layer that it has."""
        head = self.repo.head()
        assert head is not None
        self.values[head.id] = self.restored(head.id, exact=False)
        assert {name for name, _ in self.restored(head.id, exact=head.exact_layer == "kept")} == set(
            self.files()
        )


TestFolder = Folder.TestCase
TestFolder.settings = settings(max_examples=12, stateful_step_count=16, deadline=None)
