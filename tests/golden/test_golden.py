"""What older versions wrote stays readable, and content that is made again gets the same ids."""

import json
import pathlib
import shutil

import blake3
import pytest

from mvcs.cli import main
from mvcs.errors import NotFoundError, UnsupportedFormatError
from mvcs.local.store_description import FORMAT
from mvcs.objects.ids import object_id
from mvcs.repository import Repository
from mvcs.store.backend import open_backend
from mvcs.store.packs.entry import FRAME_MAGIC, entry_end
from mvcs.store.packs.footer import HEADER_BYTES
from mvcs.store.reading.objects import ObjectStore
from mvcs.store.reading.pack_files import pack_name
from tests.golden.convert_preview import convert_preview
from tests.golden.history import STEPS, digest, files, flat, state
from tests.golden.make import described

HERE = pathlib.Path(__file__).parent
VERSIONS = sorted(path.name for path in HERE.glob("v*"))
CODERS = ["huffman"]
# Format 1 is closed. These are never written again: what differs from them is a bug, or another format.
FROZEN = {
    "before-closing": "3d18198d482bfa7f3c1b304425edf1f1e57927d90584cf9c797b473d11178c23",
    "huffman": "83e035fc5e9e6afd9897b0c208825e64c06721891d7c8664f21e540f4d5c77f1",
    "kinds": "daa4fa668cfefe846303eb227c04b8d254ef7f6eabcecb0c12531ee5ec3f3004",
    "preview": "2b819066ae42726805e16d3808c5e2402832ab2ae809a2a6d4eae6a1b3a3d72d",
    "v1": "06f3d1e47926e956a99c59ff54ce3002a58fd9014f2a0452fa01bdbf624cd794",
}


@pytest.fixture(params=[*VERSIONS, *CODERS])
def golden(request, tmp_path):
    """A copy of the store that a version wrote, opened, and what must be found in it."""
    source = HERE / request.param
    shutil.copytree(source / "store", tmp_path / "store")
    with Repository.open(tmp_path / "store") as repository:
        yield repository, json.loads((source / "expected.json").read_text())


def test_every_format_has_golden_files():
    assert [f"v{number}" for number in range(1, FORMAT + 1)] == VERSIONS


def frozen(folder: pathlib.Path) -> str:
    """Return one hash over the names and bytes of all files below a folder."""
    hasher = blake3.blake3()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        hasher.update(f"{path.relative_to(folder).as_posix()} {path.stat().st_size}\n".encode())
        hasher.update(path.read_bytes())
    return hasher.hexdigest()


@pytest.mark.parametrize("name", FROZEN)
def test_golden_files_are_never_written_again(name):
    assert frozen(HERE / name) == FROZEN[name], "format 1 is closed: its golden files stay as they are"


def test_commits_come_back_as_they_were(golden):
    repository, expected = golden
    found = list(repository.log(all_branches=True))
    assert [info.id for info in found] == [commit["id"] for commit in expected["commits"]]
    for info, commit in zip(found, expected["commits"], strict=True):
        assert (info.step, info.exactness) == (commit["step"], commit["exactness"])
        assert dict(repository.cat_file(info.id).value)["tree"] == commit["tree"]
        assert digest(repository.checkout(info.id, numpy=True)) == commit["restored"]


def test_exact_layers_come_back_or_are_known_as_dropped(golden):
    repository, expected = golden
    layers = {commit["step"]: commit["layer"] for commit in expected["commits"]}
    assert layers == {0: "exact", 1: "exact", 2: "value", 3: "exact", 4: "exact", 9: "exact"}
    for step in range(STEPS + 1):
        if layers[step] == "exact":
            assert flat(repository.checkout(f"step:{step}", exact=True, numpy=True)) == flat(state(step))
        else:
            with pytest.raises(NotFoundError, match="exact layer"):
                repository.checkout(f"step:{step}", exact=True)


def test_files_come_back_byte_for_byte(golden, tmp_path):
    repository, _ = golden
    repository.export("Files/a", tmp_path / "out")
    assert {name: (tmp_path / "out" / name).read_bytes() for name in files()} == files()


def test_names_and_notes_are_found(golden):
    repository, expected = golden
    assert {branch.name: branch.commit for branch in repository.branches()} == expected["branches"]
    assert {tag.name: tag.commit for tag in repository.tags()} == expected["tags"]
    assert [note.metrics for note in repository.notes("main~1")] == expected["notes"]
    assert [entry.number for entry in repository.reflog("main")] == [0, 1, 2, 3, 4]


def test_fsck_finds_nothing(golden):
    report = golden[0].fsck()
    assert report.ok
    assert (report.problems, report.notes) == ([], [])


def test_every_object_hashes_to_its_id(golden):
    store = ObjectStore(open_backend(golden[0].url))
    for info in golden[0].log(all_branches=True):
        revision = golden[0]._session.resolver.resolve(info.id)
        tree = golden[0]._session.store.tree(revision.commit.tree)
        store.lean_on(tree, revision.written.exact_packs)
    checked = 0
    for path in (*store.backend.list("packs"), *store.backend.list("exact")):
        exact = path.startswith("exact")
        for placed in store.catalog.attach(pack_name(path), exact=exact).entries:
            for member, identifier in zip(placed.entry.members, placed.ids, strict=True):
                content = store.read(member.kind, identifier, exact=exact)
                assert object_id(member.kind, content) == identifier
                checked += 1
    assert checked > 30


def test_the_same_states_get_the_same_tree_ids_today(tmp_path):
    expected = json.loads((HERE / f"v{FORMAT}/expected.json").read_text())
    trees = {commit["step"]: commit["tree"] for commit in expected["commits"]}
    with Repository.init(tmp_path) as repository:
        for step in range(STEPS + 1):
            info = repository.commit(state(step), step=step, bins=16 if step else None)
            assert dict(repository.cat_file(info.id).value)["tree"] == trees[step]


def encodings(place):
    """Return the encodings of a store's value layer by name."""
    store = ObjectStore(open_backend(str(place)))
    packs = [store.catalog.attach(pack_name(path)) for path in store.backend.list("packs")]
    return {placed.entry.encoding.name for pack in packs for placed in pack.entries}


@pytest.mark.parametrize("coder", CODERS)
def test_a_coder_writes_what_its_golden_files_hold(coder, tmp_path):
    with Repository.init(tmp_path / "work", store=str(tmp_path / "store")) as repository:
        repository.config_set("delta.coder", coder)
        for step in range(STEPS + 1):
            repository.commit(state(step), step=step, bins=16 if step else None)
    assert encodings(tmp_path / "store") == encodings(HERE / coder / "store")
    assert {"CODES", "DELTA"} <= encodings(HERE / coder / "store")
    assert not {"RANS_CODES", "RANS_DELTA"} & encodings(HERE / coder / "store")


PREVIEWS = ["before-closing", "preview"]


@pytest.mark.parametrize("name", PREVIEWS)
def test_a_store_from_before_the_format_was_closed_is_refused(tmp_path, capsys, name):
    """It has other bytes under the same number: its marks say so before anything is misread."""
    folder = tmp_path / "work"
    shutil.copytree(HERE / name / "store", folder / ".mvcs")
    for words in (["log"], ["status"], ["checkout", "main", "-o", str(tmp_path / "out")], ["fsck"]):
        assert main(["-C", str(folder), *words]) == 6
        assert "before format 1 was closed" in capsys.readouterr().err
    with pytest.raises(UnsupportedFormatError, match="before format 1 was closed"):
        Repository.clone(str(folder), tmp_path / "clone")
    assert not (tmp_path / "clone").exists()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", PREVIEWS)
def test_a_pack_from_before_the_format_was_closed_is_refused(tmp_path, name):
    """As somebody copies it by hand into a newer store."""
    with Repository.init(tmp_path / "work") as repository:
        repository.commit(state(0))
    for source in (HERE / name / "store" / "packs").rglob("*.pack"):
        target = tmp_path / "work" / ".mvcs" / "packs" / source.parent.name / source.name
        target.parent.mkdir(exist_ok=True)
        shutil.copyfile(source, target)
    with Repository.open(tmp_path / "work") as repository:
        report = repository.fsck()
        assert any("before format 1 was closed" in note for note in report.notes)
        assert flat(repository.checkout("main", numpy=True)) == flat(state(0))


def test_a_store_from_before_the_format_was_closed_can_be_converted(tmp_path):
    expected = json.loads((HERE / "preview" / "expected.json").read_text())
    convert_preview(HERE / "preview" / "store", tmp_path / "store")
    with Repository.open(tmp_path / "store") as repository:
        assert described(repository) == expected
        assert [entry.number for entry in repository.reflog("main")] == [0, 1, 2, 3, 4]
        report = repository.fsck()
    assert (report.problems, report.notes) == ([], [])


def entries(place):
    """Return the bytes of every entry of a store of any features."""
    found = set()
    for path in place.rglob("*.pack"):
        data, offset = path.read_bytes(), HEADER_BYTES
        while data[offset : offset + len(FRAME_MAGIC)] == FRAME_MAGIC:
            start, offset = offset, entry_end(data, offset)
            found.add(data[start:offset])
    return found


def test_entries_of_a_converted_store_are_byte_for_byte_what_they_were(tmp_path):
    convert_preview(HERE / "preview" / "store", tmp_path / "store")
    left = entries(HERE / "preview" / "store") - entries(tmp_path / "store")
    commits = json.loads((HERE / "preview" / "expected.json").read_text())["commits"]
    assert len(left) == len(commits)  # what packs said last of their commits is said in another way
