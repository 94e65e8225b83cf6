"""What a blob is: opaque bytes (tokenizer files, a foreign header), cut on the blob grid."""

from dataclasses import dataclass

from mvcs.objects import cbor
from mvcs.objects.checked_fields import as_integer, as_list, recording
from mvcs.objects.chunk_grid import BLOB_CHUNK_BYTES
from mvcs.objects.ids import Kind, ObjectId, as_id, object_id


@dataclass(frozen=True)
class Blob:
    """Opaque bytes.

    Attributes:
        length: number of bytes.
        chunks: ids of the chunks, runs of 2^24 bytes.
    """

    length: int
    chunks: tuple[ObjectId, ...]

    def encode(self) -> bytes:
        """Return the canonical content.

        Raises:
            UsageError: the chunks are not those of the length.
        """
        content = cbor.dumps([self.length, list(self.chunks)])
        with recording("this blob"):
            Blob.decode(content)
        return content

    @property
    def id(self) -> ObjectId:
        """The blob's id."""
        return object_id(Kind.BLOB, self.encode())

    @classmethod
    def decode(cls, content: bytes | memoryview) -> "Blob":
        """Read canonical content.

        Raises:
            CorruptionError: it is not a blob.
        """
        length, chunks = as_list(cbor.loads(content), "a blob", 2)
        size = as_integer(length, "a blob's length")
        ids = as_list(chunks, "a blob's chunks", -(-size // BLOB_CHUNK_BYTES))
        return cls(size, tuple(as_id(chunk) for chunk in ids))
