"""`mvcs repair` as a user types it."""

import numpy as np

from mvcs import Repository
from mvcs.cli.declaration import CORRUPTION, USAGE
from tests.repository.states import own_packs


def damaged(folder):
    """A repository with a remote, of whose only pack a bit flipped; how the pack was."""
    with Repository.init(folder) as repo:
        repo.commit({"w": np.arange(5000.0), "b": np.ones(3)}, message="first")
        repo.add_remote("origin", str(folder.parent / "far"))
        repo.push()
    [pack] = (folder / ".mvcs/packs").rglob("*.pack")
    whole = pack.read_bytes()
    pack.write_bytes(whole[:600] + bytes(512) + whole[1112:])
    return pack, whole


def test_it_plans_then_mends(console):
    pack, whole = damaged(console.folder)
    name = pack.relative_to(console.folder / ".mvcs").as_posix()
    plan = console("repair", "--dry-run").out
    assert f"would mend {name}" in plan
    assert "copied from 'origin'" in plan
    assert "ok: 1 file would be mended, 1 of 1 commit restores whole" in plan
    assert pack.read_bytes() != whole
    answer = console("repair", "--json").json
    assert (answer["executed"], answer["problems"], answer["losses"]) == (True, [], [])
    assert [one["path"] for one in answer["mended"]] == [name]
    assert pack.read_bytes() == whole
    assert "ok: 0 files mended, 1 of 1 commit restores whole" in console("repair").out


def test_a_damaged_description_is_written_anew_first(console):
    pack, whole = damaged(console.folder)
    described = console.folder / ".mvcs/mvcs.json"
    before = described.read_bytes()
    described.write_bytes(before[:50] + bytes(20) + before[70:])
    assert "'mvcs init' writes it again" in console("repair", "--dry-run", code=CORRUPTION).err
    assert "was written again" in console("repair").err
    assert (described.read_bytes(), pack.read_bytes()) == (before, whole)


def test_it_names_what_is_lost(console):
    damaged(console.folder)
    console("remote", "rm", "origin")
    found = console("repair", code=CORRUPTION).out
    assert "lost of " in found
    assert "'first': 1 tensor, w" in found
    assert "damaged: 0 files mended, 1 problem left, 0 of 1 commit restore whole" in found
    [loss] = console("repair", "--json", code=CORRUPTION).json["losses"]
    assert (loss["layer"], loss["tensors"], loss["count"]) == ("value", ["w"], 1)


def test_it_names_what_restores(console):
    with Repository.init(console.folder) as repo:
        good = repo.commit({"w": np.arange(5000.0)}, message="good", step=7)
        repo.create_branch("old")
        before = set((console.folder / ".mvcs/packs").rglob("*.pack"))
        repo.commit({"w": np.random.default_rng(1).random(5000)}, message="bad", step=8)
    [pack] = set((console.folder / ".mvcs/packs").rglob("*.pack")) - before
    whole = pack.read_bytes()
    pack.write_bytes(whole[:600] + bytes(512) + whole[1112:])
    found = console("repair", "--dry-run", code=CORRUPTION).out
    back = f"; 'mvcs reset --hard --force {good.short}' moves the branch there"
    for branch, way in (("main", back), ("old", "")):
        assert f"newest of branch {branch} that restores: {good.short} step 7 'good'{way}\n" in found
    assert "'mvcs repair --dry-run -v' lists all" in found
    assert f"restores whole: {good.short}" in console("repair", "--dry-run", "-v", code=CORRUPTION).out
    answer = console("repair", "--dry-run", "--json", code=CORRUPTION).json
    assert answer["whole"] == [good.id]
    assert [(one["branch"], one["commit"]) for one in answer["newest"]] == [
        ("main", good.id),
        ("old", good.id),
    ]


def test_fsck_takes_one_level(console):
    pack, _ = damaged(console.folder)
    assert "ok: " in console("fsck", "--quick").out
    assert "its bytes do not hash to its name" in console("fsck", "--packs", code=CORRUPTION).out
    found = console("fsck", "--sample", "1%", code=CORRUPTION).out
    assert "1 pack of all in turn" in found
    assert "100% of this round" in found
    assert "1 object cannot be read" in found
    assert console("fsck", "--sample", "0.5", "--json", code=CORRUPTION).json["sample"]["packs"] == 1
    assert "not a share" in console("fsck", "--sample", "often", code=USAGE).err
    assert "give one of them" in console("fsck", "--quick", "--sample", "1%", code=USAGE).err
    assert "copied from 'origin'" in console("repair").out
    assert "1 pack of all in turn" in console("fsck", "--sample", "1%").out
    assert pack.exists()


def test_what_one_lost_pack_costs_is_said_once(console):
    with Repository.init(console.folder) as repo:
        for number in range(20):
            repo.commit({"w": np.arange(500.0) + number, "b": np.ones(3)}, step=number)
        name = own_packs(repo, "step:0")[-1]
        (repo._session.place.local / "packs" / name[:2] / f"{name}.pack").unlink()
    lines = console("repair", "--dry-run", code=CORRUPTION).out.splitlines()
    assert sum(line.startswith("commit: ") for line in lines) == 1
    assert sum(line.startswith("lost of ") for line in lines) <= 12
    assert "mvcs fsck" not in "".join(lines)


def test_its_own_scratch_folder_is_no_stranger(console):
    damaged(console.folder)
    said = console("repair", "--dry-run")
    assert "no part of a store" not in said.out + said.err
