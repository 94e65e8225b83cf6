"""What is said of a commit later: tags, which name it, and notes, which add metrics."""

from dataclasses import dataclass

from mvcs.objects import cbor
from mvcs.objects.checked_fields import as_integer, as_list, as_text, recording
from mvcs.objects.commit_fields import metric_pairs
from mvcs.objects.ids import Kind, ObjectId, as_id, object_id


@dataclass(frozen=True)
class Tag:
    """A lasting name for a commit.

    Attributes:
        target: the commit.
        author: who named it.
        time: microseconds since 1970-01-01 UTC.
        message: why.
    """

    target: ObjectId
    author: str
    time: int
    message: str

    def encode(self) -> bytes:
        """Return the canonical content.

        Raises:
            UsageError: a value is out of its field's range.
        """
        content = cbor.dumps([self.target, self.author, self.time, self.message])
        with recording("this tag"):
            Tag.decode(content)
        return content

    @property
    def id(self) -> ObjectId:
        """The tag's id."""
        return object_id(Kind.TAG, self.encode())

    @classmethod
    def decode(cls, content: bytes) -> "Tag":
        """Read canonical content.

        Raises:
            CorruptionError: it is not a tag.
        """
        target, author, time, message = as_list(cbor.loads(content), "a tag", 4)
        return cls(
            as_id(target), as_text(author, "a tag"), as_integer(time, "a tag"), as_text(message, "a tag")
        )


@dataclass(frozen=True)
class Note:
    """Metrics learned after a commit was made.

    Attributes:
        target: the commit.
        metrics: name and value.
        author: who adds them.
        time: microseconds since 1970-01-01 UTC.
    """

    target: ObjectId
    metrics: tuple[tuple[str, float], ...]
    author: str
    time: int

    def encode(self) -> bytes:
        """Return the canonical content.

        Raises:
            UsageError: a value is out of its field's range.
        """
        metrics: list[cbor.Value] = [list(pair) for pair in self.metrics]
        content = cbor.dumps([self.target, metrics, self.author, self.time])
        with recording("this note"):
            Note.decode(content)
        return content

    @property
    def id(self) -> ObjectId:
        """The note's id."""
        return object_id(Kind.NOTE, self.encode())

    @classmethod
    def decode(cls, content: bytes) -> "Note":
        """Read canonical content.

        Raises:
            CorruptionError: it is not a note.
        """
        target, metrics, author, time = as_list(cbor.loads(content), "a note", 4)
        pairs = metric_pairs(metrics, "a note's metrics")
        return cls(as_id(target), pairs, as_text(author, "a note"), as_integer(time, "a note"))
