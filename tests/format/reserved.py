"""The worked records of what is reserved: no code of mvcs writes or reads them yet, so they are made here."""

import struct

import blake3

from mvcs.objects import cbor, half, seal
from mvcs.objects.ids import ObjectId
from tests.format import examples

PACK = bytes.fromhex(examples.PACK_NAME)
SIGNATURE_CONTEXT = "mvcs format 1 signature"
SIGNED = b"mvcs format 1 signed"

ROW = half(examples.CHUNK_ID) + struct.pack("<IQI", 0, 16, 48)
SIGNATURE: list[cbor.Value] = [
    examples.COMMIT.id,
    "ed25519",
    bytes(range(32)),
    bytes(range(64)),
    examples.AUTHOR,
    examples.TIME,
]

VALUES: dict[str, tuple[bytes, cbor.Value]] = {
    "merged": (b"MVCSMRG1", [0, [PACK], ROW]),
}
RECORDS = {name: seal(magic, value) for name, (magic, value) in VALUES.items()}
EXTENSIONS: list[cbor.Value] = [
    ["merge", False, ["average", [0.75, 0.25]]],
    ["ranks", True, [examples.STATE.id, examples.FILES.id]],
    ["placements", False, [[["data", 2], ["model", 4]], [[0, [None, 1]]]]],
]
MERGED_NAME = blake3.blake3(RECORDS["merged"]).hexdigest()


def signature_id() -> ObjectId:
    """The id of the worked signature."""
    content = cbor.dumps(SIGNATURE)
    return ObjectId(blake3.blake3(content, derive_key_context=SIGNATURE_CONTEXT).digest())
