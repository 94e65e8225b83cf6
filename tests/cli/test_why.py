"""`mvcs why` as a user types it."""


def test_it_shows_the_way_to_a_commit_and_to_a_pack(history):
    commit = history.json("show", "main~2")["commit"]["id"]
    out = history("why", "main~2").out
    assert out.startswith(f"commit {commit}")
    assert "\nneeded by:\n  branch side\n  commit " in out or "\nneeded by:\n  branch main\n" in out
    pack = history.packs()[0].stem
    assert f"pack {pack[:12]}" in history("why", pack[:16]).out
    path = f"packs/{pack[:2]}/{pack}.pack"
    assert f"pack {pack[:12]}" in history("why", path).out  # as fsck and gc print it


def test_what_was_dropped_is_told(history):
    """Of three commits on main the oldest gave up its exact layer."""
    out = history("why", "main~2").out
    assert "dropped 1 pack of the exact layer" in out


def test_json_has_the_same(history):
    found = history.json("why", "side")
    assert (found["kind"], found["state"]) == ("commit", "needed")
    assert [step["kind"] for step in found["steps"]] == ["branch", "commit"]


def test_what_is_not_there_is_not_found(history):
    assert "nor does a commit name it" in history("why", "deadbeef0123", code=3).err
    assert "no revision named" in history("why", "nothing-of-ours", code=3).err
