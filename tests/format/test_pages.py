"""The worked bytes of the format pages are what the code writes and reads."""

import json
import pathlib
import re
import struct

import pytest
import torch

from mvcs.checkpoint import capture_state
from mvcs.checkpoint.files import write_file
from mvcs.checkpoint.formats.layout import capture_named
from mvcs.checkpoint.formats.safetensors_file import marked, parse_header
from mvcs.checkpoint.state.captured import Collector
from mvcs.checkpoint.state.stamped import StampedFile
from mvcs.checkpoint.state.state import ContentReader
from mvcs.delta import ElementFormat, Encoding, decode
from mvcs.errors import CorruptionError, UnsupportedFormatError
from mvcs.local.place import Description
from mvcs.objects import cbor, unseal
from mvcs.objects.chunk_grid import DTYPES
from mvcs.objects.commit import Commit
from mvcs.objects.forms import FORMS, RESERVED_FORMS
from mvcs.objects.ids import Kind, object_id
from mvcs.objects.tensors import ExactTensor, QuantizedTensor
from mvcs.objects.trees.leaves import FileEntry, FileFormat, Leaf
from mvcs.objects.trees.structure import NodeTag as Node
from mvcs.objects.trees.tree import Tree
from mvcs.quantize.restore import Restorer
from mvcs.refs.names import encode_name
from mvcs.refs.record import RefRecord
from mvcs.retention.drops import DropRecord
from mvcs.store.backend import open_backend
from mvcs.store.condemned.record import CondemnedRecord, Standing
from mvcs.store.manifests import (
    MAX_ANCESTORS,
    MAX_PACKS,
    MAX_RECORD,
    Manifest,
    decode_placement,
    encode_placement,
    manifest_path,
)
from mvcs.store.packs.footer import HEADER_BYTES, TRAILER_BYTES
from mvcs.store.packs.pack import name_of, scan
from mvcs.store.packs.written_commit import LastEntry
from mvcs.store.reading.objects import ObjectStore
from mvcs.store.reading.pack_files import pack_path
from mvcs.store.upgrades import CHANGING, CONDEMNED_PACKS, KNOWN, Upgrade
from mvcs.train.state.optimizers import Optimizers
from tests.format import examples, page, reserved
from tests.reference import reader

COMMIT_DIGITS = 8 * "0123abcd"
BITS = {"F6_E2M3": 6, "F6_E3M2": 6, "F4": 4, "BOOL": 8, "BF16": 16}
FLOATING_TYPES = ["F4", "F6_E2M3", "F6_E3M2", "F8_E4M3", "F8_E4M3FNUZ", "F8_E5M2", "F8_E5M2FNUZ", "F8_E8M0"]
FLOATING_TYPES += ["F16", "BF16", "F32", "F64", "C64"]
INTEGER_TYPES = ["BOOL", *(f"{sign}{bits}" for sign in "UI" for bits in (8, 16, 32, 64))]
BYTES_OF_EIGHT = {
    name: BITS.get(name) or int(re.search(r"\d+", name)[0]) for name in FLOATING_TYPES + INTEGER_TYPES
}


def row(text: str, *cells: str) -> bool:
    """Tell whether a table of a page has a row that begins with these cells."""
    return f"| {' | '.join(cells)} |" in text


def test_every_block_is_an_example():
    pages = (
        "encodings.md",
        "objects.md",
        "numeric-tables.md",
        "packs.md",
        "refs.md",
        "drops.md",
        "manifests.md",
        "README.md",
        "condemned.md",
        "files.md",
    )
    pages = (*pages, "retention.md", "reserved.md", "channels.md")
    assert {name: sorted(page.blocks(name)) for name in pages} == {
        "encodings.md": ["context"],
        "objects.md": sorted(examples.OBJECTS),
        "numeric-tables.md": sorted(examples.FORMS),
        "packs.md": ["group", "last", "pack"],
        "refs.md": ["record"],
        "drops.md": ["drop"],
        "manifests.md": ["dropped", "first", "moved"],
        "README.md": ["upgrade"],
        "files.md": ["layout", "parameters"],
        "condemned.md": ["condemned"],
        "retention.md": ["pins", "rules"],
        "channels.md": ["coded", "header", "share", "sign", "sixteen-bits", "three-bits", "two-bits"],
        "reserved.md": sorted([*reserved.VALUES, "extensions", "signature"]),
    }


@pytest.mark.parametrize("name", examples.OBJECTS)
def test_objects_are_the_bytes_on_the_page(name):
    example = examples.OBJECTS[name]
    content = page.blocks("objects.md")[name]
    assert example.encode() == content
    if name not in {"tensor", "quantized"}:
        assert type(example).decode(content) == example
    assert f"Id `{example.id.hex()}`." in page.text("objects.md")


@pytest.mark.parametrize("kind", Kind)
def test_kinds_and_contexts_stand_on_the_page(kind):
    lines = page.text("objects.md").splitlines()
    assert any(line.startswith(f"| {kind.value} |") and f"`{kind.domain}`" in line for line in lines)


@pytest.mark.parametrize("tag", Node)
def test_tags_stand_on_the_page(tag):
    rows = re.findall(r"^\| ([0-9, ]+) \| ([`A-Z_, ]+) \|", page.text("objects.md"), re.MULTILINE)
    numbers = {
        name.strip("` "): int(number)
        for first, second in rows
        for number, name in zip(first.split(","), second.split(","), strict=True)
    }
    assert numbers[tag.name] == tag.value


@pytest.mark.parametrize("name", examples.FORMS)
def test_forms_are_the_bytes_on_the_page_and_restore_the_values_on_it(name):
    example, text = examples.FORMS[name], page.text("numeric-tables.md")
    content = page.blocks("numeric-tables.md")[name]
    assert example.encode() == content
    known = {other.id: other for other in examples.FORMS.values()}
    assert QuantizedTensor.read(cbor.loads(content), known.__getitem__) == example
    restored = Restorer(examples.CHUNKS.__getitem__).restore(example, 0)
    assert f"Id `{example.id.hex()}`. Restores `{restored.hex(' ')}`" in text
    chunks = [examples.CHUNKS[found] for found in example.chunk_ids()]
    assert all(f"`{content.hex(' ')}`" in text for content in chunks)


def test_the_table_on_the_page_restores_to_the_elements_on_it():
    restored = Restorer(examples.CHUNKS.__getitem__).restore(examples.QUANTIZED, 0)
    assert f"| elements | `{restored.hex(' ')}` |" in page.text("numeric-tables.md")


def test_numbers_of_forms_stand_on_the_page():
    text = page.text("numeric-tables.md")
    named = {number: form.__name__ for number, form in FORMS.items()} | {0: "Table"} | RESERVED_FORMS
    for number, name in named.items():
        first = re.sub("(?<=[a-z])[A-Z]", lambda found: f" {found[0].lower()}", name).lower()
        assert re.search(rf"^\| {number} \| \[?{first}\b", text, re.MULTILINE)


def test_fields_of_a_commit_stand_on_the_page_in_order():
    part = page.text("objects.md").partition("## Commit")[2].partition("## Tag")[0]
    fields = re.findall(r"^\| `(\w+)` \|", part, re.MULTILINE)
    assert fields == list(Commit.__dataclass_fields__)


def test_the_pack_is_the_bytes_on_the_page():
    data = page.blocks("packs.md")["pack"]
    assert data == examples.PACK
    assert f"`{name_of(data)}`" in page.text("packs.md")
    text = page.text("packs.md")
    assert row(text, "header", str(HEADER_BYTES))
    assert row(text, "trailer", str(TRAILER_BYTES))


def test_the_last_entry_is_the_bytes_on_the_page():
    content = page.blocks("packs.md")["last"]
    assert examples.LAST.content == content
    assert LastEntry.decode(content) == examples.LAST
    assert f"The id of the chunk is `{examples.LAST.id.hex()}`" in page.text("packs.md")


def test_the_pack_on_the_page_gives_back_its_chunk(tmp_path):
    data = page.blocks("packs.md")["pack"]
    backend = open_backend(str(tmp_path))
    backend.put(pack_path(name_of(data)), data)
    assert ObjectStore(backend).read(Kind.CHUNK, examples.CHUNK_ID) == examples.CHUNK
    (offset, entry, payload, end), (*_, salt, _) = scan(data)
    assert (offset, payload, end) == (HEADER_BYTES, examples.CHUNK, 64)
    assert salt == examples.SALT
    assert object_id(entry.members[0].kind, payload) == examples.CHUNK_ID


def test_the_context_of_an_integer_is_flipped_where_it_was_shifted_to():
    payload = page.blocks("encodings.md")["context"]
    chunk, base = (struct.pack("<128h", *values) for values in (examples.NEAR_INTEGERS, examples.INTEGERS))
    integers = ElementFormat(2, floating=False)
    assert decode(Encoding.RANS_RESIDUAL, payload, lengths=[256], element=integers, base=base) == chunk


@pytest.mark.parametrize("mode", [b"\2", b"\3", b"\xff"])
@pytest.mark.parametrize("encoding", [Encoding.RANS_CODES, Encoding.RANS_PLANES, Encoding.NARROWED])
def test_a_mode_that_no_table_has_is_corruption(encoding, mode):
    mode = mode if encoding is not Encoding.RANS_PLANES else bytes([mode[0] | 4])
    with pytest.raises(CorruptionError):
        decode(encoding, mode, lengths=[2], element=ElementFormat(2, floating=False), base=bytes(4))


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ('{@"w":{}}', "no `__metadata__`"),
        ('{"__metadata__":{@},"w":{}}', "empty `__metadata__`"),
        ('{"__metadata__":{@"a":"b"},"w":{}}', "others"),
        ('{"w":{}, "__meta\\u0064ata__" : {@"a":"b"}}', "others"),
    ],
)
def test_what_marks_a_lossy_restore_stands_on_the_page(header, row):
    found = re.search(rf"^\| {row} \| `(.+)` \| (\d+) \|", page.text("files.md"), re.MULTILINE)
    put = found[1].replace("ID", COMMIT_DIGITS).replace("·", " ")
    assert len(put) == int(found[2])
    assert marked(header.replace("@", "").encode(), COMMIT_DIGITS).decode() == header.replace("@", put)


def test_the_layout_on_the_page_gives_the_file_on_it(tmp_path):
    layout, values = page.blocks("files.md")["layout"], struct.pack("<ff", 1, -2)
    tensor = ExactTensor(DTYPES["float32"], (2,), (object_id(Kind.CHUNK, values),))
    entry = FileEntry("x", FileFormat.BINARY, [2, [["a", [9, 0, 0]]]], layout)
    tree = Tree.decode(Tree((Leaf(tensor),), files=(entry,)).encode())
    content = ContentReader(tree, lambda _: iter([values]), lambda *_: b"", lambda *_: iter(()))
    write_file(tree.files[0], content, tmp_path / "x")
    assert (tmp_path / "x").read_bytes() == b"head" + values + b"!"
    found = capture_named(
        StampedFile.at(tmp_path / "x"), "x", [("a", DTYPES["float32"], (2,), 4)], Collector()
    )
    assert found == tree.files[0]


def test_types_of_safetensors_stand_on_the_page():
    part = page.text("files.md").partition("| `dtype` |")[2].partition("\n\n")[0]
    rows = [
        [cell.strip(" `").split("` `") for cell in line.split("|")[1:3]] for line in part.splitlines()[2:]
    ]
    named = {
        name: types[min(place, len(types) - 1)] for names, types in rows for place, name in enumerate(names)
    }
    assert set(named) == {*FLOATING_TYPES, *INTEGER_TYPES}
    for name, element in named.items():
        (span,) = parse_header(
            json.dumps(
                {"w": {"dtype": name, "shape": [8], "data_offsets": [0, BYTES_OF_EIGHT[name]]}}
            ).encode()
        )
        assert span.dtype.name == element


def test_tensors_without_elements_come_where_they_begin():
    empty = {"dtype": "F32", "shape": [0]}
    header = {
        "last": empty | {"data_offsets": [4, 4]},
        "w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
        "z": empty | {"data_offsets": [0, 0]},
        "a": empty | {"data_offsets": [0, 0]},
    }
    spans = parse_header(json.dumps(header).encode())
    assert [span.name for span in spans] == ["z", "a", "w", "last"]


def test_the_ref_record_is_the_bytes_on_the_page():
    data = page.blocks("refs.md")["record"]
    assert data == examples.RECORD.encode()
    assert RefRecord.decode(data) == examples.RECORD


def test_names_of_refs_stand_on_the_page():
    part = page.text("refs.md").partition("| name | segment |")[2].partition("\n\n")[0]
    pairs = re.findall(r"^\| `([^`]+)` \| `([^`]+)` \|$", part, re.MULTILINE)
    assert len(pairs) == 8
    assert [encode_name(name) for name, _ in pairs] == [segment for _, segment in pairs]


def test_the_drop_record_is_the_bytes_on_the_page():
    data = page.blocks("drops.md")["drop"]
    assert data == examples.DROP.encode()
    assert DropRecord.decode(data) == examples.DROP


def test_the_upgrade_is_the_bytes_on_the_page():
    data = page.blocks("README.md")["upgrade"]
    assert data == examples.UPGRADE.encode()
    assert Upgrade.decode(data) == examples.UPGRADE
    assert reader.upgrade(data) == (0, examples.UPGRADE.name, CHANGING)


def test_the_condemned_packs_are_the_bytes_on_the_page():
    data = page.blocks("condemned.md")["condemned"]
    assert data == examples.CONDEMNED.encode()
    assert CondemnedRecord.decode(data) == examples.CONDEMNED
    text = page.text("condemned.md")
    assert [int(number) for number in re.findall(r"^\| (\d) \| \*\w+\*:", text, re.MULTILINE)] == list(
        Standing
    )
    assert CONDEMNED_PACKS in text


@pytest.mark.parametrize("name", reserved.VALUES)
def test_reserved_records_are_the_bytes_on_the_page(name):
    (magic, value), data = reserved.VALUES[name], page.blocks("reserved.md")[name]
    assert data == reserved.RECORDS[name]
    assert unseal(magic, data, "a record", 1 << 26) == value
    assert reader.sealed(data, magic[:-1], 1 << 26) == value
    assert magic.decode() in page.text("README.md")


def test_the_first_record_of_a_manifest_is_the_bytes_on_the_page():
    data = page.blocks("manifests.md")["first"]
    assert data == examples.FIRST
    assert Manifest.decode(data, examples.CHILD.id) == examples.MANIFEST
    assert f"`{manifest_path(examples.CHILD.id, 0)}`" in page.text("manifests.md")


@pytest.mark.parametrize(("name", "example"), [("moved", examples.MOVED), ("dropped", examples.DROPPED)])
def test_later_records_of_a_manifest_are_the_bytes_on_the_page(name, example):
    data, commit = page.blocks("manifests.md")[name], examples.CHILD.id
    assert data == encode_placement(commit, example)
    assert decode_placement(data, commit) == example


def test_limits_of_manifests_stand_on_the_page():
    text = page.text("manifests.md")
    assert f"at most 2^{MAX_RECORD.bit_length() - 1} bytes" in text
    assert f"an array of 1 to {1 + MAX_ANCESTORS} rows" in text
    assert f"more than {MAX_PACKS} packs" in text


@pytest.mark.parametrize("name", ["rules", "pins"])
def test_records_of_what_is_kept_are_the_bytes_on_the_page(name):
    example = {"rules": examples.RULES, "pins": examples.PINS}[name]
    data = page.blocks("retention.md")[name]
    assert data == example.encode()
    assert type(example).decode(data) == example
    assert reader.sealed(data, data[:7], 1 << 20) == unseal(data[:8], data, "a record", 1 << 20)


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_upgrades_that_are_known_stand_on_the_page(name):
    assert row(page.text("README.md"), f"`{name}`", "1")


def test_the_row_of_a_merged_index_finds_the_entry_of_the_pack_on_its_page():
    half, number, offset, length = struct.unpack("<16sIQI", reserved.ROW)
    (start, _, _, end), _ = scan(examples.PACK)
    assert (half, number) == (examples.CHUNK_ID[:16], 0)
    assert (offset, offset + length) == (start, end)
    assert f"Name `{reserved.MERGED_NAME}`." in page.text("reserved.md")


def test_a_reserved_signature_has_the_bytes_and_the_id_on_the_page():
    text = page.text("reserved.md")
    assert page.blocks("reserved.md")["signature"] == cbor.dumps(reserved.SIGNATURE)
    assert f"Id `{reserved.signature_id().hex()}`." in text
    assert f"`{reserved.SIGNATURE_CONTEXT}`" in text
    assert f"`{reserved.SIGNED.decode()}`" in text
    assert "| 8 | reserved |" in page.text("objects.md")
    assert max(kind.value for kind in Kind) < 8


def test_reserved_extensions_are_kept_or_refused_as_the_page_says():
    assert page.blocks("reserved.md")["extensions"] == cbor.dumps(reserved.EXTENSIONS)
    rows = re.findall(r"^\| `(\w+)` \| (true|false) \|", page.text("reserved.md"), re.MULTILINE)
    assert dict(rows) == {name: str(required).lower() for name, required, _ in reserved.EXTENSIONS}
    values = cbor.loads(examples.COMMIT.encode())[:-1]
    for extension in reserved.EXTENSIONS:
        content = cbor.dumps([*values, [extension]])
        if extension[1]:
            with pytest.raises(UnsupportedFormatError):
                Commit.decode(content)
        else:
            assert Commit.decode(content).encode() == content


def test_every_section_of_what_is_reserved_says_so():
    first, *sections = page.text("reserved.md").split("\n## ")
    assert "reserved: not built yet" in first
    table = re.findall(r"^\| \[(.+)\]\(#", first, re.MULTILINE)
    assert [section.partition("\n")[0] for section in sections] == table
    marked = [
        section
        for section in sections
        if section.partition("\n\n")[2].startswith("*Reserved: not built yet.*")
    ]
    assert marked == sections


def test_the_description_is_the_text_on_the_page():
    [text] = re.findall(r"^```json\n(.*?)^```$", page.text("README.md"), re.MULTILINE | re.DOTALL)
    assert text.encode() == examples.DESCRIPTION.encode()
    assert Description.decode(text.encode(), "here") == examples.DESCRIPTION


def test_the_index_names_every_page():
    pages = {path.name for path in pathlib.Path(page.FOLDER).glob("*.md")} - {"README.md"}
    assert pages == set(re.findall(r"^\| \[([a-z-]+\.md)\]", page.text("README.md"), re.MULTILINE))


def test_what_a_clone_remembers_stands_on_the_page():
    sources = [path.read_text() for path in (page.FOLDER.parents[1] / "mvcs").rglob("*.py")]
    constant = re.compile(r'^(?:SUBJECT|DAMAGED|HEAD_LOG|SAMPLED|SEEN_REFS)\b[^="]* = "(\w+)"', re.MULTILINE)
    part = page.text("README.md").partition("| SUBJECT |")[2].partition("\n\n")[0]
    named = re.findall(r"^\| `(\w+)` \|", part, re.MULTILINE)
    assert named == sorted({name for text in sources for name in constant.findall(text)})


def test_what_a_run_says_of_its_parameters_has_the_bytes_on_the_page():
    model = torch.nn.Sequential(torch.nn.Linear(3, 2, bias=False))
    optimizer = torch.optim.SGD([model[0].weight, torch.zeros(2, requires_grad=True)])
    optimizer.state[model[0].weight]["exp_avg"] = torch.zeros(3, 2).t()
    said = Optimizers({"model": model, "optimizer": optimizer}).gather({"optimizer": optimizer.state_dict()})
    assert cbor.dumps(capture_state(said).root) == page.blocks("files.md")["parameters"]
