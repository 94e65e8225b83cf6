"""One flipped bit in the record of a ref: what does not need that record works, and the way back is named."""

import shutil

import pytest

from tests.cli.conftest import Console
from tests.repository.states import copied


def flip(folder, ref):
    """Flip a bit in the newest record of a ref, such as `heads/main`; return the file."""
    path = min((folder / ".mvcs/refs" / ref).iterdir())
    data = bytearray(path.read_bytes())
    data[40] ^= 4
    path.chmod(0o644)
    path.write_bytes(data)
    return path


def tip(mvcs, rev="HEAD"):
    return mvcs.json("log", rev, "-1")[0]["id"]


@pytest.fixture
def damaged(mvcs):
    """Three commits on main, one of them on `side` too, and main's newest record damaged."""
    mvcs.ids = [mvcs.commit(f"{number}", shift=float(number))["id"] for number in range(3)]
    mvcs("branch", "side", "main~1")
    flip(mvcs.folder, "heads/main")
    return mvcs


def test_what_needs_the_record_fails_and_names_a_way_that_works(damaged):
    for words in (["log"], ["show"], ["push"], ["switch", "-c", "new"], ["branch", "-m", "main", "other"]):
        if words == ["push"]:
            damaged("remote", "add", "origin", damaged.folder.parent / "far")
        error = damaged(*words, code=5).err
        assert "mvcs reflog main" in error
        assert "mvcs switch -c NEW main@{1}" in error
    damaged("switch", "-c", "rescue", "main@{1}", "--force")
    assert damaged.commit("continues", shift=9.0)["parents"] == [damaged.ids[1]]


def test_the_reflog_and_older_places_are_read_past_a_damaged_record(damaged):
    newest, *older = damaged.json("reflog")
    assert (newest["commit"], newest["time"]) == (None, None)
    assert "checksum" in newest["damage"]
    assert [entry["commit"] for entry in older] == damaged.ids[1::-1]
    assert damaged("reflog", "main").out.startswith("damaged")
    assert tip(damaged, "main@{1}") == damaged.ids[1]
    assert tip(damaged, "side") == damaged.ids[1]
    assert "cannot be read" in damaged("log", "main@{0}", code=5).err


def test_status_says_what_is_wrong_and_still_compares_the_files(damaged):
    found = damaged("status", "--json", code=5).json
    assert (found["branch"], found["head"], found["unreadable"]) == ("main", None, True)
    assert found["entries"] == [{"path": "model.safetensors", "state": "unmodified"}]
    assert "mvcs reflog main" in found["problems"][0]
    assert damaged.ids[2][:12] in found["problems"][0]
    assert "Its commit cannot be read" in damaged("status", code=5).out


def test_one_can_go_elsewhere_and_the_newest_commit_stays_in_sight(damaged):
    told = damaged("checkout", damaged.ids[0]).err
    assert f"mvcs branch NAME {damaged.ids[2][:12]}" in told
    damaged("switch", "side")
    damaged("branch", "found", damaged.ids[2])
    damaged("branch", "-d", "main", code=4)
    damaged("branch", "-d", "main", "--force")
    damaged("branch", "-m", "found", "main")
    assert tip(damaged, "main") == damaged.ids[2]
    report = damaged.json("fsck")
    assert report["ok"]
    assert any("passed over" in note for note in report["notes"])


def test_uncommitted_changes_are_not_lost_by_leaving_a_damaged_branch(damaged):
    damaged.model(shift=9.0)
    assert "would be lost" in damaged("switch", "side", code=4).err
    damaged("switch", "side", "--force")


def test_a_commit_on_a_damaged_branch_is_kept_beside_it(damaged):
    damaged.model(shift=9.0)
    error = damaged("commit", "model.safetensors", "-m", "kept", code=5).err
    [kept] = [item for item in damaged.json("branch") if ".conflict-" in item["name"]]
    assert f"kept as branch '{kept['name']}'" in error
    assert f"mvcs switch {kept['name']}" in error
    damaged("switch", kept["name"])
    assert [info["id"] for info in damaged.json("log")] == [kept["commit"], *damaged.ids[::-1]]


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """Two commits, a tag, a note and a second branch, here and in a remote."""
    folder = tmp_path_factory.mktemp("published")
    (folder / "run").mkdir()
    mvcs = Console(folder / "run")
    mvcs("init")
    for number in range(2):
        mvcs.commit(f"{number}", shift=float(number))
    mvcs("tag", "v1", "main~1")
    mvcs("branch", "side", "main~1")
    mvcs("note", "main", "--metric", "loss=1")
    mvcs("remote", "add", "origin", folder / "far")
    mvcs("push", "origin", "--all", "--tags")
    return folder


@pytest.fixture
def shared(published, console, tmp_path):
    """A copy of them."""
    copied(published, tmp_path)
    console.ids = [info["id"] for info in reversed(console.json("log"))]
    console.far = tmp_path / "far"
    return console


def far_flip(mvcs, ref):
    """Do so in the remote, which is a bare store."""
    [path] = sorted((mvcs.far / "refs" / ref).iterdir())[:1]
    data = bytearray(path.read_bytes())
    data[40] ^= 4
    path.chmod(0o644)
    path.write_bytes(data)


@pytest.mark.parametrize("mend", ["fetch", "push", "remote remove"])
def test_what_is_known_of_a_remote_is_written_anew(shared, mend):
    flip(shared.folder, "remotes/origin%2Fmain")
    assert shared.json("status")["remote"] is None
    assert "origin/main" in shared("log").err
    if mend == "remote remove":
        shared("remote", "remove", "origin")
        assert "origin" not in shared("log").out
    else:
        shared(mend, "origin")
        assert shared.json("status")["remote"] == [0, 0]
        assert tip(shared, "origin/main") == shared.ids[1]
    assert shared.json("fsck")["ok"]


@pytest.mark.parametrize("ref", ["tags/v1", "heads/side", "notes"])
def test_damage_here_stops_no_exchange_that_does_not_need_it(shared, ref):
    ref = f"notes/{shared.ids[1]}" if ref == "notes" else ref
    flip(shared.folder, ref)
    shared("fetch")
    new = shared.commit("new", shift=5.0)["id"]
    shared("push")
    assert tip(shared, "origin/main") == new
    if ref == "heads/side":
        error = shared("push", "--all", code=5).err
        assert "'side' was not sent" in error
        assert "the others were" in error
    if ref == "tags/v1":
        shared("tag", "-d", "v1")
        shared("fetch")
        assert [item["name"] for item in shared.json("tag")] == ["v1"]
    if ref.startswith("notes"):
        assert shared.json("log", shared.ids[1], "-1")[0]["metrics"] == {"loss": 1.0}


def test_gc_names_the_damaged_ref_and_goes_on_once_it_is_dealt_with(shared):
    flip(shared.folder, "heads/side")
    error = shared("gc", code=5).err
    assert "refs/heads/side" in error
    assert "mvcs branch -d side --force" in error
    shared("branch", "-d", "side", "--force")
    report = shared.json("gc")
    assert report["garbage"] == []
    assert "every commit in the store is kept" in report["notes"][0]


@pytest.mark.parametrize("ref", ["heads/side", "tags/v1", "notes"])
def test_one_damaged_name_over_there_keeps_nothing_else_from_being_cloned(shared, tmp_path, ref):
    far_flip(shared, f"notes/{shared.ids[1]}" if ref == "notes" else ref)
    other = Console(tmp_path)
    error = other("clone", shared.far, "copy", code=5).err
    assert "the others were" in error
    assert "over there" in error
    assert "mvcs reflog'" in error
    copy = Console(tmp_path / "copy")
    assert tip(copy) == shared.ids[1]
    assert copy.json("fsck")["ok"]
    shared("fetch", code=5)
    new = shared.commit("new", shift=5.0)["id"]
    shared("push")
    copy("pull", code=0 if ref == "notes" else 5)
    assert tip(copy) == new
    if ref == "heads/side":
        assert "push --force" in shared("push", "origin", "side", code=5).err
        shared("push", "origin", "side", "--force")
        copy("pull")
        assert tip(copy, "origin/side") == shared.ids[0]


def test_a_damaged_branch_over_there_does_not_count_as_deleted(shared):
    far_flip(shared, "heads/side")
    shared("fetch", code=5)
    assert tip(shared, "origin/side") == shared.ids[0]


def test_a_fetch_says_that_a_branch_over_there_was_set_back(shared):
    there = Console(shared.folder.parent)
    there("clone", shared.far, "copy")
    copy = Console(shared.folder.parent / "copy")
    copy("branch", "old", "main~1")
    copy("switch", "old")
    copy("branch", "-d", "main", "--force")
    copy("branch", "-m", "old", "main")
    copy("push", "origin", "main", "--force")
    out = shared("fetch").out
    assert "origin/main (forced update)" in out
    assert f"mvcs branch NAME {shared.ids[1][:12]}" in out
    assert shared.json("fetch")["updated"] == []


def test_a_store_that_lost_all_its_names_is_not_taken_for_garbage(shared):
    """HEAD, refs and what this clone remembers are gone; the packs hold all commits."""
    (shared.folder / ".mvcs/HEAD").unlink()
    assert [found["kind"] for found in shared.json("fsck", code=5)["problems"]] == ["HEAD"]
    shared("init")
    for name in ("refs", "local"):
        shutil.rmtree(shared.folder / ".mvcs" / name)
    (shared.folder / ".mvcs/lineage.sqlite").unlink()
    [problem] = shared.json("fsck", code=5)["problems"]
    assert (problem["kind"], problem["subject"]) == ("ref", "refs")
    assert "2 commits" in problem["message"]
    assert shared.ids[1] in problem["message"]
    assert shared.json("gc", "--grace", 0, "--execute")["garbage"] == []
    shared("branch", "main", shared.ids[1])
    assert [info["id"] for info in shared.json("log")] == shared.ids[::-1]
    assert shared.json("fsck")["ok"]


def spoil(folder, ref, how):
    """Put in the place of a ref's newest record what is no file, or nothing."""
    path = min((folder / ".mvcs/refs" / ref).iterdir())
    path.unlink()
    if how == "folder":
        path.mkdir()
    elif how == "link":
        path.symlink_to("nowhere")
    elif how == "file for all":
        shutil.rmtree(path.parent)
        path.parent.write_bytes(b"")


@pytest.fixture
def held(mvcs):
    """Two commits, the newer one held by a tag alone, and a clone that remembers nothing of it."""
    mvcs.ids = [mvcs.commit(f"{number}", shift=float(number))["id"] for number in range(2)]
    mvcs("tag", "only")
    mvcs("switch", "-c", "other", "main~1")
    mvcs("branch", "-D", "main")
    shutil.rmtree(mvcs.folder / ".mvcs/refs/heads/main")
    shutil.rmtree(mvcs.folder / ".mvcs/local")
    return mvcs


@pytest.mark.parametrize("how", ["folder", "link", "nothing", "file for all"])
def test_gc_keeps_what_a_tag_held_whose_record_is_no_file_or_gone(held, how):
    spoil(held.folder, "tags/only", how)
    before = held.packs()
    if how in ("folder", "link"):
        assert "mvcs tag -d only" in held("gc", "--grace", 0, "--execute", code=5).err
    else:
        note = held.json("gc", "--grace", 0, "--execute")["notes"][0]
        assert "where 'only' stood is not known: every commit in the store is kept" in note
        assert any("'only'" in note for note in held.json("fsck")["notes"])
    assert held.packs() == before
    held("show", held.ids[1])


def test_gc_keeps_everything_where_the_place_of_all_tags_is_no_folder(held):
    shutil.rmtree(held.folder / ".mvcs/refs/tags")
    (held.folder / ".mvcs/refs/tags").write_bytes(b"")
    before = held.packs()
    held("gc", "--grace", 0, "--execute")
    assert held.packs() == before


@pytest.mark.parametrize("ref", ["tags/v1", "heads/side", "remotes/origin%2Fside"])
def test_a_record_that_is_no_file_stops_nothing_that_does_not_need_it(shared, ref):
    spoil(shared.folder, ref, "folder")
    assert "is not a file" in shared("log").err
    assert not shared.json("fsck", code=5)["ok"]
    shared.commit("new", shift=5.0)
    shared("commit", "--amend", "-m", "newer")
    shared("fetch")
    shared("push")
    if ref == "tags/v1":
        shared("tag", "-d", "v1")
    if ref == "heads/side":
        shared("branch", "-D", "side")
    assert shared.json("fsck")["ok"]
    assert shared.json("gc", "--grace", 0, "--execute")["garbage"] == []
