"""The worked examples of the format pages, made by the code; the pages must show exactly these bytes."""

import struct

from mvcs.delta.element import ElementFormat
from mvcs.delta.encoding import Encoding, decode
from mvcs.local.place import Description
from mvcs.objects import seal, unseal
from mvcs.objects.chunk_grid import DTYPES
from mvcs.objects.commit import Commit, Note, Tag
from mvcs.objects.forms import Absent, Constant, Derived, Lattice, LogLattice, RootLattice
from mvcs.objects.ids import Kind, ObjectId, digest, object_id
from mvcs.objects.tensors import Blob, ExactTensor, QuantizedTensor
from mvcs.objects.trees.leaves import FileEntry, FileFormat, Leaf
from mvcs.objects.trees.tree import Tree
from mvcs.refs.record import RefRecord
from mvcs.retention.drops import Drop, DropRecord
from mvcs.retention.pins import PinRecord
from mvcs.retention.rules import Keeps, Layer, Rule, RuleRecord
from mvcs.store.condemned.record import CondemnedRecord, Standing
from mvcs.store.manifests import MAX_RECORD, DataDrop, Manifest, Placement, WrittenCommit
from mvcs.store.packs.entry import OPAQUE, Entry, Member
from mvcs.store.packs.pack import name_of
from mvcs.store.packs.written_commit import LastEntry, chunk_entry
from mvcs.store.upgrades import CHANGING, Upgrade
from tests.store.packing import PackBuilder

TIME = 1_767_225_600_000_000  # 2026-01-01 00:00 UTC
AUTHOR = "Ada"
WRITE_ID = bytes(range(16))

CHUNK = struct.pack("<2f", 1.0, -2.0)
CHUNK_ID = object_id(Kind.CHUNK, CHUNK)
TENSOR = ExactTensor(DTYPES["float32"], (2,), (CHUNK_ID,))

CODES = bytes.fromhex("020003010200")
EXCEPTIONS = struct.pack("<I", 2) + bytes.fromhex("c07f")
QUANTIZED = QuantizedTensor(
    DTYPES["bfloat16"],
    (2, 3),
    1,
    bytes.fromhex("80bf0000c03f"),
    (object_id(Kind.CHUNK, CODES),),
    (object_id(Kind.CHUNK, EXCEPTIONS),),
    digest(bytes.fromhex("c03f 80bf c07f 0000 c03f 80bf")),
)


def chunk(*numbers: int) -> bytes:
    """The content of a chunk of codes or offsets."""
    return struct.pack(f"<{len(numbers)}h", *numbers)


INTEGERS = [0] * 64 + [-1] * 64
NEAR_INTEGERS = [-3, 3] * 32 + [0] * 64

CHUNKS = {
    object_id(Kind.CHUNK, content): content
    for content in (
        CODES,
        EXCEPTIONS,
        chunk(3, -2, 0, -32768),
        struct.pack("<If", 3, float("inf")),
        chunk(426, -32768),
        chunk(0, 3, 0),
        chunk(0, -1, -32767, 0, 0, 0),
        chunk(1, -1, 1, 1, 0, 0),
    )
}


def chunk_id(*numbers: int) -> ObjectId:
    """The id of such a chunk."""
    return object_id(Kind.CHUNK, chunk(*numbers))


LATTICE = QuantizedTensor(
    DTYPES["float32"],
    (4,),
    2,
    Lattice(217),
    (chunk_id(3, -2, 0, -32768),),
    (object_id(Kind.CHUNK, struct.pack("<If", 3, float("inf"))),),
    digest(struct.pack("<4f", 15 / 64, -10 / 64, 0, float("inf"))),
)
SECOND = LogLattice(23, chunk_id(426, -32768), chunk_id(0, 3, 0))
LOG_LATTICE = QuantizedTensor(
    DTYPES["float32"],
    (2, 3),
    2,
    SECOND,
    (chunk_id(0, -1, -32767, 0, 0, 0),),
    (None,),
    digest(bytes.fromhex("00004035 00002035" + 4 * "00000000")),
)
RANK_ONE = QuantizedTensor(
    DTYPES["float32"],
    (2, 3),
    2,
    SECOND,
    digests=digest(bytes.fromhex("00004035 0000a035 00004035" + 3 * "00000000")),
)
ROOT = QuantizedTensor(
    DTYPES["float32"],
    (2, 3),
    2,
    RootLattice(229, LOG_LATTICE),
    (chunk_id(1, -1, 1, 1, 0, 0),),
    (None,),
    digest(bytes.fromhex("66900a3a 72fbfcb9" + 4 * "00000000")),
)
DERIVED = QuantizedTensor(
    DTYPES["bfloat16"], (4,), 0, Derived(LATTICE), digests=digest(bytes.fromhex("703e 20be 0000 807f"))
)
CONSTANT = QuantizedTensor(DTYPES["float16"], (3,), 0, Constant(bytes.fromhex("003c")))
ABSENT = QuantizedTensor(DTYPES["float32"], (2,), 0, Absent())

FORMS = {
    "lattice": LATTICE,
    "log-lattice": LOG_LATTICE,
    "rank-1": RANK_ONE,
    "root-lattice": ROOT,
    "derived": DERIVED,
    "constant": CONSTANT,
    "absent": ABSENT,
}

TEXT = b"tokens\n"
BLOB = Blob(len(TEXT), (object_id(Kind.CHUNK, TEXT),))

STATE = Tree((Leaf(TENSOR),), root=[2, [["w", [9, 0, 2]], ["step", 500], ["lr", 0.1]]])
OBJECT = Tree((), root=[16, "deque", [0, 1, 2], 5])
FILES = Tree((), files=(FileEntry("vocab.txt", FileFormat.OPAQUE, [10, BLOB.id, BLOB.length]),))
COMMIT = Commit(
    tree=STATE.id,
    parents=(),
    author=AUTHOR,
    time=TIME,
    message="warm-up done",
    step=500,
    metrics=(("val_loss", 2.5),),
)
TAG = Tag(COMMIT.id, AUTHOR, TIME, "first")
NOTE = Note(COMMIT.id, (("accuracy", 0.75),), AUTHOR, TIME)


SALT = WRITE_ID
SALT_ID = object_id(Kind.CHUNK, SALT)


def pack() -> bytes:
    """A pack of one chunk, as a writer ends it in the middle of a commit."""
    builder = PackBuilder()
    entry = Entry((Member(Kind.CHUNK, len(CHUNK)),), Encoding.RAW, ElementFormat(4, floating=True))
    builder.add(entry, CHUNK, (CHUNK_ID,))
    builder.add(chunk_entry(len(SALT)), SALT, (SALT_ID,))
    return builder.finish()


PACK = pack()
PACK_NAME = name_of(PACK)
LAST = LastEntry((1000, 420, 900, 2), (PACK_NAME,))

CHILD = Commit(
    tree=STATE.id, parents=(COMMIT.id,), author=AUTHOR, time=TIME + 60_000_000, message="", step=501
)
OTHER_PACK = bytes(range(32)).hex()
MANIFEST = Manifest(
    WrittenCommit(CHILD.id, CHILD.encode(), 1000, 300, 0, 3),
    Placement((PACK_NAME,), (OTHER_PACK,)),
    (WrittenCommit(COMMIT.id, COMMIT.encode(), 1000, 540, 0, 2),),
)
MOVED = Placement((PACK_NAME,), number=1)
DROPPED = Placement((PACK_NAME,), dropped=DataDrop(TIME, 0, "no rule kept it"), number=2)


def described_raw(record: bytes) -> bytes:
    """The same first record of a manifest, its description stored as it is."""
    *items, (length, stored) = unseal(MANIFEST_MAGIC, record, "a manifest", MAX_RECORD)
    raw = decode(Encoding(stored[0]), stored[1:], lengths=[length], element=OPAQUE)
    return seal(MANIFEST_MAGIC, [*items, [length, bytes([Encoding.RAW]) + bytes(raw)]])


MANIFEST_MAGIC = b"MVCSMAN1"
FIRST = described_raw(MANIFEST.encode())

RECORD = RefRecord(0, COMMIT.id, None, TIME, AUTHOR, "commit: warm-up done", write_id=WRITE_ID)
DROP = DropRecord(0, (Drop(COMMIT.id, (PACK_NAME,), TIME),))
RULES = RuleRecord(
    0,
    (
        Rule(Layer.EXACT, Keeps.LAST, (2,)),
        Rule(Layer.DATA, Keeps.LAST, (20,)),
        Rule(Layer.DATA, Keeps.EVERY, (1000,)),
        Rule(Layer.DATA, Keeps.BEST, (3, "val_loss", "min")),
        Rule(Layer.DATA, Keeps.TAGGED),
    ),
    TIME,
    AUTHOR,
)
PINS = PinRecord(0, {COMMIT.id: "paper"}, TIME, AUTHOR)
UPGRADE = Upgrade(0, "dropped-data", CHANGING, TIME, AUTHOR)
CONDEMNED = CondemnedRecord(0, Standing.CONDEMNED, (PACK_NAME,), TIME, AUTHOR)
DESCRIPTION = Description(WRITE_ID.hex(), WRITE_ID[::-1].hex())

OBJECTS = {
    "tensor": TENSOR,
    "quantized": QUANTIZED,
    "blob": BLOB,
    "state": STATE,
    "object": OBJECT,
    "files": FILES,
    "commit": COMMIT,
    "tag": TAG,
    "note": NOTE,
}
