"""Values that are not those of the writer are handed to nobody, whoever is at fault."""

from pathlib import Path

from tests.cli import hostile
from tests.cli.conftest import Console


def test_values_that_a_digest_does_not_know_are_not_handed_out(tmp_path: Path) -> None:
    hostile.forged_digest(tmp_path / "work")
    mvcs = Console(tmp_path / "work")
    said = mvcs("checkout", "main", "-o", "out.safetensors", code=5)
    assert "restores to other values than its digest says" in said.err
    assert not list((tmp_path / "work").glob("out*"))
    # What needs no values goes on.
    assert "hello" in mvcs("log").out
    assert "w" in mvcs("show", "main").out


def test_fsck_finds_values_that_their_digest_does_not_know(tmp_path: Path) -> None:
    hostile.forged_digest(tmp_path / "work")
    mvcs = Console(tmp_path / "work")
    said = mvcs("fsck", code=5)
    assert "other values than its digest says" in said.out + said.err


def test_fsck_does_not_restore_what_a_few_bytes_claim_to_be(tmp_path: Path) -> None:
    hostile.endless_values(tmp_path / "work")
    said = Console(tmp_path / "work").json("fsck")
    assert said["ok"]
    assert any("were not compared: they take 17179869184 bytes" in note for note in said["notes"])
