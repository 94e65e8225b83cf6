"""The pages suffice: a reader written from them alone reads what mvcs writes, golden stores and new ones."""

import json
import math
import pathlib
import re
import shutil
from contextlib import nullcontext

import numpy as np
import pytest
import torch

from mvcs import Repository, errors
from mvcs.errors import NotFoundError
from mvcs.objects import Tree, cbor
from tests.format.page import blocks, text
from tests.golden.history import digest, files, state
from tests.reference import reader, reader_objects, reader_payloads
from tests.reference.reader import Entry, Pack, Store
from tests.reference.reader_objects import BLOB, CHUNK, COMMIT, KINDS, NOTE, QUANTIZED_TENSOR, TAG, TREE
from tests.reference.reader_payloads import CorruptionError, MissingError, UnsupportedError
from tests.reference.states import KINDS_OF_BOUNDS, all_kinds, moved, training

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
STORES = ["v1", "huffman"]
FLOAT32, CODE, LONG_CODE, INTEGER = 10, 0, 1, 2  # element formats


def equal(ours, theirs) -> None:
    """Two states are the same, types, bits and order included."""
    assert type(ours) is type(theirs)
    if isinstance(ours, np.ndarray):
        assert (ours.dtype, ours.shape, ours.tobytes()) == (theirs.dtype, theirs.shape, theirs.tobytes())
    elif isinstance(ours, dict):
        assert list(ours) == list(theirs)
        equal(list(ours.values()), list(theirs.values()))
    elif isinstance(ours, list | tuple):
        assert len(ours) == len(theirs)
        for mine, other in zip(ours, theirs, strict=True):
            equal(mine, other)
    else:
        assert ours == theirs or (math.isnan(ours) and math.isnan(theirs))


def compare(store: Store, repository: Repository) -> set[object]:
    """Every commit is the same in both layers; return the forms that were read."""
    forms = set()
    for info in repository.log(all_branches=True):
        own = bytes.fromhex(info.id)
        equal(store.state(own), repository.checkout(info.id, numpy=True))
        forms |= {leaf.quantized and leaf.quantized.form for leaf in store.tree(own)[1]}
        try:
            exact = repository.checkout(info.id, numpy=True, exact=True)
        except NotFoundError:
            with pytest.raises(MissingError):
                store.state(own, exact=True)
        else:
            equal(store.state(own, exact=True), exact)
    return forms


# Golden stores.


@pytest.mark.parametrize("name", STORES)
def test_golden_commits_restore_as_expected(name):
    store, expected = (
        Store(GOLDEN / name / "store"),
        json.loads((GOLDEN / name / "expected.json").read_text()),
    )
    assert not store.damaged
    assert {own.hex() for own in store.history()} == {one["id"] for one in expected["commits"]}
    for one in expected["commits"]:
        own = bytes.fromhex(one["id"])
        fields = store.commit(own)
        assert (fields["tree"].hex(), fields["step"], fields["exactness"]) == (
            one["tree"],
            one["step"],
            one["exactness"],
        )
        assert digest(store.state(own)) == one["restored"]


@pytest.mark.parametrize("name", STORES)
def test_golden_exact_layers_are_the_states_that_were_committed(name):
    store, expected = (
        Store(GOLDEN / name / "store"),
        json.loads((GOLDEN / name / "expected.json").read_text()),
    )
    for one in expected["commits"]:
        own = bytes.fromhex(one["id"])
        if one["step"] == 9:
            assert store.files(own) == files()
        elif one["layer"] == "exact":
            assert digest(store.state(own, exact=True)) == digest(state(one["step"]))
        else:
            with pytest.raises(MissingError):
                store.state(own, exact=True)
            assert store.exact_packs(own) == store.drops()[own]


@pytest.mark.parametrize("name", STORES)
def test_golden_names_are_as_expected(name):
    store, expected = (
        Store(GOLDEN / name / "store"),
        json.loads((GOLDEN / name / "expected.json").read_text()),
    )
    assert {name: own.hex() for name, own in store.branches().items()} == expected["branches"]
    assert {name: own.hex() for name, own in store.tags().items()} == expected["tags"]
    assert [dict(note["metrics"]) for notes in store.notes().values() for note in notes] == expected["notes"]


@pytest.mark.parametrize(("name", "codes"), [("v1", "RANS_DELTA"), ("huffman", "DELTA")])
def test_every_golden_entry_decodes(name, codes):
    assert getattr(reader_payloads, codes) in Store(GOLDEN / name / "store").scan()


@pytest.mark.parametrize("name", STORES)
def test_a_manifest_names_all_that_a_value_layer_needs(tmp_path, name):
    store = Store(GOLDEN / name / "store")
    for own in store.manifests:
        alone = tmp_path / own.hex()
        shutil.copytree(GOLDEN / name / "store", alone, ignore=packs_but(store.value_packs(own)))
        Store(alone).state(own)


def packs_but(names: tuple[bytes, ...]):
    """What to leave out of a copy: packs of other names."""
    kept = {f"{name.hex()}.pack" for name in names}
    return lambda _, entries: [entry for entry in entries if entry.endswith(".pack") and entry not in kept]


def test_a_golden_store_is_what_mvcs_reads(tmp_path):
    with Repository.clone(str(GOLDEN / "v1/store"), tmp_path / "clone") as repository:
        compare(Store(tmp_path / "clone/.mvcs"), repository)


def test_a_store_from_before_closing_is_another_format():
    with pytest.raises(UnsupportedError, match="features"):
        Store(GOLDEN / "before-closing/store")


def test_no_byte_of_a_pack_may_change():
    for path in sorted(GOLDEN.glob("v1/store/*/*/*.pack"))[:2]:
        name, data = bytes.fromhex(path.stem), path.read_bytes()
        Pack(name, data, exact=True)
        for at in range(len(data)):
            damaged = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
            with pytest.raises((CorruptionError, UnsupportedError)):
                Pack(name, damaged, exact=True)


# New stores.


@pytest.mark.parametrize("coder", ["auto", pytest.param("huffman", marks=pytest.mark.slow)])
@pytest.mark.parametrize("bounds", KINDS_OF_BOUNDS.values(), ids=KINDS_OF_BOUNDS)
def test_new_states_of_every_kind(tmp_path, bounds, coder):
    with Repository.init(tmp_path) as repository:
        repository.config_set("delta.coder", coder)
        values = all_kinds()
        for step in range(4):
            repository.commit(values, step=step, **bounds)
            values = moved(values, step)
        store = Store(tmp_path / ".mvcs")
        compare(store, repository)
    assert not store.damaged
    store.scan()


@pytest.mark.parametrize(
    ("bounds", "forms"),
    [
        ({}, {None}),
        ({"step_size": 0.5, "moments": "resume"}, {None, 1, 2, 3, 4}),
        ({"step_size": 0.5, "moments": "light"}, {None, 1, 2, 4, 7}),
        ({"bins": 16, "moments": "resume"}, {None, 0, 1, 2, 3, 4}),
    ],
)
def test_new_states_of_an_optimizer(tmp_path, bounds, forms):
    with Repository.init(tmp_path) as repository:
        for step, values in enumerate(training(4)):
            repository.commit(values, step=step, **bounds)
        store = Store(tmp_path / ".mvcs")
        assert compare(store, repository) == forms
    store.scan()


TENSOR = '"w":{"dtype":"F32","shape":[64,64],"data_offsets":[0,16384]}'
HEADERS = {
    "no metadata": f"{{{TENSOR}}}",
    "empty metadata": f'{{{TENSOR}, "__metadata__" : {{}} }}',
    "null": f'{{{TENSOR},"__metadata__":null}}',
    "metadata": f'{{ "__metadata__":{{"a}}":"{{"}},{TENSOR}}}',
    "spaces": f'{{{TENSOR},"__metadata__":{{"a":"b"}}}}   ',
}


@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS)
def test_new_files(tmp_path, header):
    name = "model/w.safetensors"
    data = np.random.default_rng(1).normal(size=(64, 64)).astype("<f4").tobytes()
    content = len(header).to_bytes(8, "little") + header.encode() + data
    with Repository.init(tmp_path) as repository:
        (tmp_path / "model").mkdir()
        (tmp_path / name).write_bytes(content)
        (tmp_path / "model/words.txt").write_text("a b")
        info = repository.commit_files([tmp_path / "model"], message="files", step_size=0.5)
        store, own = Store(tmp_path / ".mvcs"), bytes.fromhex(info.id)
        assert store.files(own, exact=True) == {name: content, "model/words.txt": b"a b"}
        for exact in (False, True):
            repository.checkout_files(info.id, exact=exact, force=True)
            assert store.files(own, exact=exact)[name] == (tmp_path / name).read_bytes()


def test_files_with_a_layout(tmp_path):
    floats = np.random.default_rng(1).normal(size=(64, 64)).astype("<f4")
    arrays = {"w": floats, "t": np.asfortranarray(floats), "big": floats.astype(">f8"), "s": np.float32(1)}
    files = {}
    with Repository.init(tmp_path) as repository:
        torch.save({"model": {"w": torch.tensor(floats).t()}, "step": 3}, tmp_path / "a.pt")
        torch.save({("a", 1): torch.tensor(floats)}, tmp_path / "b.pt", _use_new_zipfile_serialization=False)
        np.savez(tmp_path / "a.npz", **arrays)
        np.savez_compressed(tmp_path / "b.npz", **arrays)
        np.savez(tmp_path / "c.npz", **arrays, text=np.array(["a"]))
        paths = [path for path in tmp_path.iterdir() if path.is_file()]
        files = {path.name: path.read_bytes() for path in paths}
        info = repository.commit_files(paths, message="files", step_size=0.5)
        store, own = Store(tmp_path / ".mvcs"), bytes.fromhex(info.id)
        assert store.files(own, exact=True) == files
        for exact in (True, False):
            repository.checkout_files(info.id, exact=exact, force=True)
            for name, content in store.files(own, exact=exact).items():
                assert content in (None, (tmp_path / name).read_bytes()), name
                assert (content == files[name]) is exact


# Worked examples.


def page_id(kind: int, name: str) -> str:
    return reader_objects.object_id(kind, blocks("objects.md")[name]).hex()


def test_objects_of_the_page():
    page = blocks("objects.md")
    assert page_id(TREE, "state").startswith("a68eae796792")
    assert page_id(COMMIT, "commit").startswith("03cc580372ff")
    assert page_id(TAG, "tag").startswith("4f201120c184")
    assert page_id(NOTE, "note").startswith("a6ffc258898e")
    assert page_id(BLOB, "blob").startswith("7672b7e23352")
    assert page_id(reader_objects.EXACT_TENSOR, "tensor").startswith("fdb348d41fdc")
    assert reader_objects.described(COMMIT, page["commit"])["metrics"] == [["val_loss", 2.5]]
    assert reader_objects.described(TAG, page["tag"])["message"] == "first"
    assert reader_objects.described(NOTE, page["note"])["metrics"] == [["accuracy", 0.75]]
    assert reader_objects.described(BLOB, page["blob"])["length"] == 7
    assert reader_objects.tree(page["state"])[1][0].grid.shape == [2]
    assert reader_objects.tree(page["files"])[0][0][0] == "vocab.txt"
    for content in page.values():
        assert reader_objects.canonical(reader_objects.parse(content)) == content
    assert len(KINDS) == 8


def nested(root: object, depth: int) -> object:
    for _ in range(depth):
        root = [0, root]
    return root


HASHED = (
    [-((1 << 61) - 1) * number - 5 for number in range(33)],
    [[4, -5.0 - 1_000_003 * number, float(number)] for number in range(32)],
)


def in_order(members, *counts: int) -> list[object]:
    """Return so many members of each kind as they stand in a set."""
    chosen = [one for kind, count in zip(members, counts, strict=True) for one in kind[:count]]
    return sorted(chosen, key=reader_objects.canonical)


ALIKE = [[((1 << 61) - 1) * number + 5, None] for number in range(1, 66)]
BLOB_NODE = [15, [10, bytes(32), 5]]


@pytest.mark.parametrize(
    ("root", "fits"),
    [
        (nested(None, 65), True),
        (nested(None, 66), False),
        (nested([0], 65), True),
        (nested([5, "float32"], 65), True),
        (nested([15, b"x"], 65), True),
        (nested(BLOB_NODE, 64), True),
        (nested(BLOB_NODE, 65), False),
        ([2, ALIKE[1:]], True),
        ([2, ALIKE], False),
        ([13, math.nan, math.nan], True),
        ([13, 2, 1], False),
        ([14, [4, 1.0, -2.0]], True),
        ([14, [0]], False),
        ([13, [[0]]], False),
        ([13, *in_order(HASHED, 33, 31)], True),
        ([13, *in_order(HASHED, 33, 32)], False),
    ],
)
def test_limits_of_a_structure_are_those_of_mvcs(root, fits):
    content = reader_objects.canonical(["state", root, []])
    for read, error in ((reader_objects.tree, CorruptionError), (Tree.decode, errors.CorruptionError)):
        with nullcontext() if fits else pytest.raises(error):
            read(content)


@pytest.mark.parametrize(("around", "fits"), [(255, True), (256, False)])
@pytest.mark.parametrize("value", [b"\x80", b"\x00", b"\xc2\x49\x01" + bytes(8)])
def test_arrays_are_as_deep_as_mvcs_takes_them(around, fits, value):
    for read, error in ((reader_objects.parse, CorruptionError), (cbor.loads, errors.CorruptionError)):
        with nullcontext() if fits else pytest.raises(error):
            read(around * b"\x81" + value)


@pytest.mark.parametrize("data", [b"\xc2" * 5000, b"\xc2\x81\x00", b"\xc2\x48" + 8 * b"\x01", b"\x18\x17"])
def test_values_in_another_form_are_refused_by_both(data):
    for read, error in ((reader_objects.parse, CorruptionError), (cbor.loads, errors.CorruptionError)):
        with pytest.raises(error):
            read(data)


OBJECTS = [
    "00 00 80 3f 00 00 00 c0",
    "02 00 03 01 02 00",
    "02 00 00 00 c0 7f",
    "03 00 fe ff 00 00 00 80",
    "03 00 00 00 00 00 80 7f",
    "aa 01 00 80",
    "00 00 03 00 00 00",
    "00 00 ff ff 01 80 00 00 00 00 00 00",
    "01 00 ff ff 01 00 01 00 00 00 00 00",
]
RESTORED = {
    "quantized": "c0 3f 80 bf c0 7f 00 00 c0 3f 80 bf",
    "lattice": "00 00 70 3e 00 00 20 be 00 00 00 00 00 00 80 7f",
    "log-lattice": "00 00 40 35 00 00 20 35" + 16 * " 00",
    "rank-1": "00 00 40 35 00 00 a0 35 00 00 40 35" + 12 * " 00",
    "root-lattice": "66 90 0a 3a 72 fb fc b9" + 16 * " 00",
    "derived": "70 3e 20 be 00 00 80 7f",
    "constant": "00 3c 00 3c 00 3c",
    "absent": 8 * "00 ",
}


@pytest.mark.parametrize("name", RESTORED)
def test_tensors_of_the_pages_restore(name):
    chunks = {reader_objects.object_id(CHUNK, bytes.fromhex(one)): bytes.fromhex(one) for one in OBJECTS}
    page = blocks("objects.md") | blocks("numeric-tables.md")
    tensors = {reader_objects.object_id(QUANTIZED_TENSOR, page[one]): page[one] for one in RESTORED}

    def tensor(own, _form):
        return reader_objects.Quantized(reader_objects.parse(tensors[own]), tensor)

    own = reader_objects.object_id(QUANTIZED_TENSOR, page[name])
    found = tensor(own, 0)
    assert found.id == own
    assert found.restored(0, lambda _, one: chunks[one]) == bytes.fromhex(RESTORED[name])


def test_the_pack_of_the_page():
    name = bytes.fromhex("b40dc9bb206728e58e7479ff49aa4af9fe1e3d48128e950a5332b028d2474ff9")
    entry, salt = Pack(name, blocks("packs.md")["pack"], exact=False).entries
    assert entry.decode([]) == [bytes.fromhex("00 00 80 3f 00 00 00 c0")]
    assert salt.decode([]) == [bytes(range(16))]


def test_the_group_of_the_page():
    entry = Entry.at(blocks("packs.md")["group"])
    near = [bytes([0, 1, 2, 3, 0, 1, 2, 3]), bytes([1, 1, 1, 1])]
    assert [reader_objects.object_id(CHUNK, one)[:16] for one in near] == entry.bases
    assert entry.decode(near) == [bytes([0, 1, 2, 3, 0, 1, 2, 2]), bytes([1, 1, 2, 1])]


def test_records_of_the_pages():
    number, record, _ = reader.record("heads", "main", blocks("refs.md")["record"])
    assert (number, record["target"][:2].hex(), record["content"]) == (0, "03cc", b"")
    number, dropped = reader.drop(blocks("drops.md")["drop"])
    assert (number, list(dropped)) == (0, [record["target"]])


def test_manifests_of_the_page():
    page, own = (
        blocks("manifests.md"),
        bytes.fromhex(re.search("/([0-9a-f]{64})[.]", text("manifests.md"))[1]),
    )
    number, packs, dropped, rows = reader.manifest(own, page["first"])
    assert (number, [pack[:2].hex() for pack in packs], dropped) == (0, ["b40d", "0001"], None)
    assert [row[0] for row in rows] == [own, bytes.fromhex(page_id(COMMIT, "commit"))]
    assert reader_objects.described(COMMIT, rows[0][1])["parents"] == [rows[1][0]]
    assert reader.manifest(own, page["moved"]) == (1, packs[:1], None, [])
    assert reader.manifest(own, page["dropped"])[2][1:] == [0, "no rule kept it"]
    with pytest.raises(CorruptionError):
        reader.manifest(rows[1][0], page["moved"])


def test_names_of_the_page():
    names = {"main": "main", "Main": "%4Dain", "a/b": "a%2Fb", "con": "%63on", "con.txt": "%63on.txt"}
    names |= {"naïve": "na%C3%AFve", ".hidden": "%2Ehidden", "50%": "50%25"}
    for name, segment in names.items():
        assert reader.segment(name) == segment
        assert reader.name_of(segment) == name


def test_a_file_without_a_lossy_tensor_has_no_mark(tmp_path):
    header = '{"i":{"dtype":"I32","shape":[2],"data_offsets":[0,8]}}'
    floats = np.random.default_rng(1).normal(size=(64, 64)).astype("<f4").tobytes()
    texts = {
        "ints": (header, bytes(8)),
        "floats": (f"{{{TENSOR}}}", floats),
        "none": ('{"__metadata__":{"a":"b"}}', b""),
    }
    with Repository.init(tmp_path) as repository:
        for name, (text, data) in texts.items():
            content = len(text).to_bytes(8, "little") + text.encode() + data
            (tmp_path / f"{name}.safetensors").write_bytes(content)
        paths = sorted(tmp_path.glob("*.safetensors"))
        own = bytes.fromhex(repository.commit_files(paths, message="files", step_size=0.5).id)
    files = Store(tmp_path / ".mvcs").files(own)
    assert [name for name, content in files.items() if b"mvcs.restored" in content] == ["floats.safetensors"]


def codes(*values: int, width: int = 1) -> bytes:
    return np.array(values, "u1" if width == 1 else "<i2").tobytes()


RUNS = codes(*[0] * 50, 2, *[0] * 70, 1, 1, *[0] * 31)
FLOATS = bytes.fromhex("00 00 80 3f 00 00 00 c0 00 00 c0 3f 00 00 00 3f")
NEAR_FLOATS = FLOATS[:4] + np.float32(-2.0000002).tobytes() + FLOATS[8:]
TREES = (b"a tree holds leaves, a leaf holds no one", b"a tree holds leaves, a leaf holds a tensor")
PAYLOADS = [
    ("CODES", CODE, "03 00", codes(*[0] * 9), None),
    ("CODES", CODE, "03 01 03", codes(*[3] * 9), None),
    ("CODES", CODE, "04 02 05 38 d1", codes(0, 1, 2, 3, 4, 3, 2, 1), None),
    ("CODES", CODE, "ff 03 0b 12 20 4d 09 a1 34 26 84 d0 9a 00", codes(0, 1, 0, 2, 0, 1, 0, 0) * 6, None),
    ("CODES", CODE, "02 04 0a 00 00 11 20 31 20 4f 8e 80 00", RUNS, None),
    ("DELTA", CODE, "03 00 02 40 00 01 03 00", codes(0, 0, 3, 3, *[0, 1, 3, 3] * 7), codes(0, 1, 2, 3) * 8),
    ("RANS_RESIDUAL", FLOAT32, "02 c0 04 00 00 00 00 00 00 78 09 00", FLOATS, NEAR_FLOATS),
    (
        "RANS_RESIDUAL",
        INTEGER,
        "00 a2 38 00 00 00 00 00 00 00 01 00",
        codes(1, 0, 0, 0) * 64,
        bytes(256),
    ),
    (
        "RANS_RESIDUAL",
        LONG_CODE,
        blocks("encodings.md")["context"].hex(),
        codes(*[-3, 3] * 32, *[0] * 64, width=2),
        codes(*[0] * 64, *[-1] * 64, width=2),
    ),
    ("RANS_PLANES", FLOAT32, "00 00 01 00 00 01 00 00 00 00 80 00 00 7f 80 7f 7e", FLOATS, None),
    (
        "RANS_PLANES",
        FLOAT32,
        (
            "02 0d 02 80 08 00 00 aa 02 01 00 aa aa 00 a8 01 00 01 00 02 10 00 a0 1f ca 00 20"
            " 00 00 aa 02 01 00 aa aa 00 a8"
        ),
        FLOATS[:8] * 16,
        None,
    ),
    ("ZSTD_DELTA", CODE, "28 b5 2f fd 20 28 65 00 00 30 6e 6f 20 6f 6e 65 01 00 cd 51 40", *TREES),
    ("NARROWED", LONG_CODE, "00", bytes.fromhex("00 7e 09 fe"), bytes.fromhex("01 00 80 7f 45 23 c1 ff")),
    ("NARROWED", LONG_CODE, "01", bytes.fromhex("c0 7f c1 ff"), bytes.fromhex("01 00 80 7f 45 23 c1 ff")),
    ("RANS_CODES", CODE, blocks("entropy.md")["codes"].hex(), codes(0, 0, 0, 1, 0, 0, 2, 0) * 3, None),
    (
        "RANS_DELTA",
        LONG_CODE,
        blocks("entropy.md")["gaps"].hex(),
        codes(*[0] * 7, 1, width=2) * 8 + bytes(384),
        bytes(512),
    ),
    (
        "RANS_DELTA",
        LONG_CODE,
        blocks("entropy.md")["escape"].hex(),
        codes(-1000, width=2),
        codes(-1, width=2),
    ),
    (
        "RANS_DELTA",
        LONG_CODE,
        blocks("entropy.md")["steps"].hex(),
        codes(3, 6, -4, width=2),
        codes(4, 8, -5, width=2),
    ),
]


@pytest.mark.parametrize(("encoding", "element", "payload", "content", "base"), PAYLOADS)
def test_payloads_of_the_pages(encoding, element, payload, content, base):
    number = getattr(reader_payloads, encoding)
    data = bytes.fromhex(payload)
    assert reader_payloads.decode(number, element, [len(content)], data, base) == content
    for at in range(len(data)):
        assert decoded(number, element, len(content), data[:at] + data[at + 1 :], base) != content


def decoded(number, element, length, data, base) -> bytes | None:
    """What a payload decodes to, or None where it breaks a MUST."""
    try:
        return reader_payloads.decode(number, element, [length], data, base)
    except (CorruptionError, UnsupportedError):
        return None
