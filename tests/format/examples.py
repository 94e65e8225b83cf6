"""The worked examples of the format pages, made by the code; the pages must show exactly these bytes."""

import struct

from mvcs.delta.element import ElementFormat
from mvcs.delta.encoding import Encoding
from mvcs.objects.annotations import Note, Tag
from mvcs.objects.blobs import Blob
from mvcs.objects.commit import Commit
from mvcs.objects.dtypes import DTYPES
from mvcs.objects.ids import Kind, file_name, object_id
from mvcs.objects.tensors import ExactTensor, QuantizedTensor
from mvcs.objects.tree import FileEntry, FileFormat, Leaf, Tree
from mvcs.policy.drops import Drop, DropRecord
from mvcs.refs.record import RefRecord
from mvcs.repository.layout import Description
from mvcs.store.entry import Entry, Member
from mvcs.store.pack import PackBuilder

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
)

TEXT = b"tokens\n"
BLOB = Blob(len(TEXT), (object_id(Kind.CHUNK, TEXT),))

STATE = Tree(
    (Leaf(TENSOR.dtype, TENSOR.shape, TENSOR.id),), root=[2, [["w", [9, 0, 2]], ["step", 500], ["lr", 0.1]]]
)
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


def pack() -> bytes:
    """A pack of one chunk, as a writer ends it in the middle of a commit."""
    builder = PackBuilder()
    entry = Entry((Member(Kind.CHUNK, len(CHUNK)),), Encoding.RAW, ElementFormat(4, floating=True))
    builder.add(entry, CHUNK, (CHUNK_ID,))
    return builder.finish()


PACK = pack()
PACK_NAME = file_name(PACK)

RECORD = RefRecord(0, COMMIT.id, PACK_NAME, None, TIME, AUTHOR, "commit: warm-up done", write_id=WRITE_ID)
DROP = DropRecord(0, (Drop(COMMIT.id, (PACK_NAME,), TIME),))
DESCRIPTION = Description(WRITE_ID.hex(), WRITE_ID[::-1].hex())

OBJECTS = {
    "tensor": TENSOR,
    "quantized": QUANTIZED,
    "blob": BLOB,
    "state": STATE,
    "files": FILES,
    "commit": COMMIT,
    "tag": TAG,
    "note": NOTE,
}
