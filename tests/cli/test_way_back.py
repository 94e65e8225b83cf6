"""Something broke: every way back is in sight, and none of them costs what is stored nowhere else."""

from mvcs.objects.ids import Kind
from mvcs.store.backend import open_backend
from mvcs.store.reading.objects import ObjectStore
from tests.cli.conftest import Console
from tests.cli.test_files import digest


def test_switch_does_not_claim_values_it_did_not_write(mvcs):
    mvcs.commit("bounded", "--bins", 16)
    mvcs("checkout", "HEAD~0", "--force")
    quantized = digest(mvcs.folder / "model.safetensors")
    assert "exact values" not in mvcs("switch", "main").out
    assert digest(mvcs.folder / "model.safetensors") == quantized
    assert mvcs.json("switch", "main")["layer"] is None


def test_diff_shows_a_file_that_is_gone(mvcs):
    mvcs.model("other.safetensors", seed=3)
    mvcs.model()
    mvcs("commit", "model.safetensors", "other.safetensors", "-m", "two")
    (mvcs.folder / "other.safetensors").unlink()
    assert ["other.safetensors", "removed"] in mvcs.json("diff")["files"]
    (mvcs.folder / "model.safetensors").unlink()
    assert len(mvcs.json("diff")["files"]) == 2


def test_the_undo_that_status_names_stays_on_the_branch(mvcs):
    mvcs.commit("one")
    committed = digest(mvcs.folder / "model.safetensors")
    mvcs.model(shift=1.0)
    mvcs.model("other.safetensors")
    mvcs("commit", "other.safetensors", "-m", "another file")
    mvcs.model("other.safetensors", shift=1.0)
    changed = digest(mvcs.folder / "other.safetensors")
    assert "mvcs restore FILE --force" in mvcs("status").out
    mvcs("restore", "model.safetensors", "--force")
    assert digest(mvcs.folder / "other.safetensors") == changed
    assert digest(mvcs.folder / "model.safetensors") == committed
    assert mvcs.json("status")["branch"] == "main"


def test_leaving_a_commit_that_nothing_names_tells_how_to_keep_it(mvcs):
    mvcs.commit("one")
    mvcs.commit("two", shift=1.0)
    mvcs("checkout", "HEAD~1")
    lost = mvcs.commit("without a branch", shift=2.0)["id"][:12]
    assert f"mvcs branch NAME {lost}" in mvcs("switch", "main").err
    mvcs("branch", "found", lost)
    mvcs("checkout", lost)
    assert "mvcs branch NAME" not in mvcs("switch", "main").err


def test_checkout_elsewhere_does_not_overwrite_uncommitted_changes(mvcs):
    mvcs.commit("one", seed=1)
    mvcs.commit("two", seed=2)
    mvcs("checkout", "main~1", "-o", "model.safetensors")
    precious = digest(mvcs.model(seed=3))
    for target in ("model.safetensors", "."):
        assert "--force" in mvcs("checkout", "main~1", "-o", target, code=4).err
    assert digest(mvcs.folder / "model.safetensors") == precious
    mvcs("checkout", "main~1", "-o", "model.safetensors", "--force")
    assert digest(mvcs.folder / "model.safetensors") != precious


def test_a_folder_of_files_does_not_overwrite_uncommitted_changes(mvcs):
    for seed in (1, 2):
        names = [mvcs.model(f"hf/{part}.safetensors", seed=seed).parent.name for part in "ab"]
        mvcs("commit", names[0], "-m", f"seed {seed}")
    precious = digest(mvcs.model("hf/b.safetensors", seed=3))
    mvcs("checkout", "main~1", "-o", ".", code=4)
    mvcs("checkout", "main~1", "-o", "../elsewhere")
    assert digest(mvcs.folder / "hf" / "b.safetensors") == precious


def test_a_folder_in_the_way_is_named(mvcs):
    mvcs.commit()
    (mvcs.folder / "model.safetensors").unlink()
    notes = mvcs.folder / "model.safetensors" / "kept" / "notes.txt"
    notes.parent.mkdir(parents=True)
    notes.write_text("mine")
    for words in (("HEAD",), ("HEAD", "--force")):
        assert "model.safetensors/kept/notes.txt" in mvcs("checkout", *words, code=4).err
    assert notes.read_text() == "mine"
    notes.unlink()
    mvcs("checkout", "HEAD")
    assert (mvcs.folder / "model.safetensors").is_file()
    assert [path.name for path in mvcs.folder.iterdir() if path.name.endswith(".tmp")] == []


def test_the_repository_itself_is_no_place_to_write(mvcs):
    mvcs.commit()
    for target in (".mvcs", ".mvcs/HEAD", ".mvcs/new.npz"):
        mvcs("checkout", "main", "-o", target, code=2)
    assert mvcs.json("status")["branch"] == "main"


def test_a_branch_that_another_writer_deleted_is_missed(tmp_path):
    """Two folders on one store: one deletes the branch that the other is on."""
    store = tmp_path / "store"
    for console in (here := Console(tmp_path / "here"), there := Console(tmp_path / "there")):
        console.folder.mkdir()
        console("init", "--store", store)
    first = here.commit("one")["id"]
    here("switch", "-c", "side")
    there("branch", "-d", "side")
    for words in (("status",), ("log",), ("commit", "model.safetensors", "-m", "two")):
        assert "mvcs reflog side" in here(*words).err
    there("branch", "-d", "side", "--force")
    here("branch", "back", "side@{3}")
    assert here.json("log", "back", "-n", 1)[0]["id"] == first


def test_an_export_overwrites_only_what_mvcs_wrote_or_stores(history):
    mine = history.folder / "mine.safetensors"
    mine.write_bytes(b"six weeks")
    assert "no commit here has it" in history("checkout", "main", "-o", "mine.safetensors", code=4).err
    assert mine.read_bytes() == b"six weeks"
    history("checkout", "main~1", "-o", "out.safetensors")
    history("checkout", "main", "-o", "out.safetensors")
    (history.folder / "out.safetensors").write_bytes(b"changed since")
    history("checkout", "main", "-o", "out.safetensors", code=4)
    history("checkout", "main", "-o", "out.safetensors", "--force")
    assert mine.read_bytes() == b"six weeks"


def test_an_export_into_a_folder_spares_what_is_there(history):
    folder = history.folder / "elsewhere"
    folder.mkdir()
    name = next(path.name for path in history.folder.glob("*.safetensors"))
    (folder / name).write_bytes(b"somebody's own")
    history("checkout", "main", "-o", folder, code=4)
    assert (folder / name).read_bytes() == b"somebody's own"


def test_diff_tells_of_files_that_hold_no_tensors(history):
    (history.folder / "hf").mkdir()
    config = history.folder / "hf" / "config.json"
    config.write_text("{}")
    history("commit", "hf", "-m", "with a config")
    config.write_text('{"layers": 2}')
    assert history.json("diff")["files"] == [["hf/config.json", "changed"]]
    history("commit", "hf", "-m", "another config")
    assert "hf/config.json" in history("diff", "HEAD~1", "HEAD").out


def test_the_hint_about_a_damaged_head_leads_back_to_a_commit_on_no_branch(mvcs):
    first = mvcs.commit("one")["id"]
    mvcs.commit("two", shift=1)
    mvcs("checkout", first)
    precious = mvcs.commit("precious", shift=2)["id"]
    head = mvcs.folder / ".mvcs/HEAD"
    head.write_bytes(b"")
    hint = mvcs("status", code=5).err
    assert f"echo '{precious}' > " in hint
    assert "commit: precious" in mvcs("reflog", "HEAD").out.splitlines()[0]
    head.write_text("ref: main\n")
    assert [row["commit"] for row in mvcs.json("reflog", "HEAD")][1] == precious
    assert f"mvcs branch NAME {precious[:12]}" in mvcs("fsck").out
    mvcs("branch", "found", "HEAD@{1}")
    assert mvcs.json("log", "found")[0]["message"] == "precious"


def test_from_a_tip_that_cannot_be_read_reset_goes_back_and_keeps_the_files(mvcs):
    mvcs.commit("one")
    lost = mvcs.commit("two", shift=1.0)["id"]
    [record] = (mvcs.folder / ".mvcs/manifests").rglob(f"{lost}.*")
    record.write_bytes(record.read_bytes()[:-200])
    precious = digest(mvcs.model(shift=2.0))
    for words in (["status"], ["commit", "model.safetensors", "-m", "x"], ["switch", "-c", "r", "main@{1}"]):
        said = mvcs(*words, code=5)
        assert "'mvcs reset main@{1}' goes back" in (said.out if words == ["status"] else said.err)
    assert mvcs.json("reset", "main@{1}")["left"] == lost
    mvcs("commit", "model.safetensors", "-m", "three")
    assert digest(mvcs.folder / "model.safetensors") == precious
    assert [commit["message"] for commit in mvcs.json("log")] == ["three", "one"]
    mvcs("checkout", "main@{1}", "--force")
    mvcs("switch", "main")
    assert digest(mvcs.folder / "model.safetensors") == precious


def test_what_is_named_is_committed_when_the_files_of_head_cannot_be_read(mvcs):
    mvcs.commit("one")
    mvcs.commit("two", shift=1.0)
    damage_trees(mvcs.folder)
    precious = digest(mvcs.model(shift=2.0))
    assert "with --only" in mvcs("commit", "model.safetensors", "-m", "x", code=5).err
    told = mvcs("commit", "model.safetensors", "-m", "three", "--only")
    assert "which files HEAD has cannot be read" in told.err
    mvcs("checkout", "HEAD", "--force")
    assert digest(mvcs.folder / "model.safetensors") == precious


def damage_trees(folder):
    """Flip a bit of every tree of a store."""
    catalog = ObjectStore(open_backend(str(folder / ".mvcs"))).catalog
    catalog.attach_everything()
    for path in (folder / ".mvcs" / "packs").rglob("*.pack"):
        content = bytearray(path.read_bytes())
        for placed in catalog.known(path.stem).entries:
            if any(member.kind is Kind.TREE for member in placed.entry.members):
                content[placed.offset + placed.length - 3] ^= 4
        path.write_bytes(content)
