"""`mvcs status` and ways out where HEAD's commit is damaged: recovering begins with it."""

import pytest

from mvcs import Repository
from tests.repository.states import own_packs

FILE = "model.safetensors"


@pytest.fixture
def two(mvcs):
    """A repository of two exact commits."""
    mvcs.ids = [mvcs.commit(f"{seed}", seed=seed)["id"] for seed in range(2)]
    return mvcs


def tip_pack(console):
    """The pack that holds HEAD's commit, and where in it the commit's tree lies."""
    with Repository.open(console.folder) as repo:
        tip = repo._session.resolver.resolve("HEAD")
        catalog = repo._session.store.catalog
        catalog.attach_commit(tip.id)
        entry = catalog.locate(tip.commit.tree).placed
        [path] = (console.folder / ".mvcs/packs").rglob(f"{own_packs(repo, 'HEAD')[-1]}.pack")
    return path, entry.offset, entry.length


def test_a_commit_that_is_lost(two):
    for path in (two.folder / ".mvcs/manifests").rglob(f"{two.ids[1]}.*"):
        path.unlink()
    found = two("status", "--json", code=5).json
    assert (found["branch"], found["head"], found["unreadable"], found["damaged"]) == (
        "main",
        None,
        True,
        True,
    )
    assert found["entries"] == [{"path": FILE, "state": "modified"}]
    assert two.ids[0][:12] in found["problems"][0]
    assert "mvcs repair" in found["problems"][0]
    told = two("status", code=5).out
    assert told.startswith("On branch main\nIts commit cannot be read: see below\n")
    assert "Changed since the newest commit that can be read" in told
    two("ls-files", "-m", code=5)


def test_a_commit_whose_tree_is_damaged(two):
    path, offset, length = tip_pack(two)
    path.chmod(0o644)
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(bytes(length))
    found = two("status", "--json", code=5).json
    assert (found["branch"], found["head"]["id"]) == ("main", two.ids[1])
    assert (found["unreadable"], found["damaged"], found["entries"]) == (False, True, [])
    assert found["problems"][0].startswith("the commit is damaged, and its files cannot be compared: object")
    assert "mvcs repair" in found["problems"][0]
    told = two("status", code=5).out
    assert "Not under version control" not in told
    assert "to compare" not in told
    two("ls-files", "-m", code=5)


@pytest.mark.parametrize("verb", ["checkout", "reset --hard", "switch -c other"])
def test_leaving_a_lost_tip_needs_force_and_says_so(two, verb):
    tip_pack(two)[0].unlink()
    assert "with --force the files here are overwritten" in two(*verb.split(), "HEAD~1", code=5).err
    two(*verb.split(), "HEAD~1", "--force")
    assert two("status", "--json").json["head"]["id"] == two.ids[0]


def test_repair_names_the_command_that_leaves_a_lost_tip(two):
    tip_pack(two)[0].unlink()
    found = two("repair", code=5).out
    assert f"that restores: {two.ids[0][:12]} '0'; 'mvcs reset --hard --force {two.ids[0][:12]}'" in found
    two("reset", "--hard", "--force", two.ids[0][:12])
    assert two("gc").out.startswith("would delete")
    two("fsck")
