"""Histories for the tests of the index: commits with real ids, tensors that change and tensors that stay."""

from collections.abc import Iterator

from blake3 import blake3

from mvcs.lineage import CommitRecord, EncodingRecord, Lineage, NoteRecord, RefRecord, TensorRecord
from mvcs.objects.commit import BOUNDED, Commit, Note
from mvcs.objects.ids import Kind, ObjectId, object_id
from tests.lineage.recorded import commits, metrics, quantizers, tensors

QUANTIZER = (("name", "kmeans"), ("bins", 16))


def identifier(*parts: object) -> ObjectId:
    return object_id(Kind.CHUNK, repr(parts).encode())


def tensor(path: str, content: int, *, pack: int = 0, chunks: int = 1) -> TensorRecord:
    name = blake3(f"pack {pack}".encode()).hexdigest()
    encodings = tuple(
        EncodingRecord(
            identifier("chunk", path, content, index), "delta", 100 + index, 4096, content % 32, name
        )
        for index in range(chunks)
    )
    value, exact = identifier("value", path, content), identifier("exact", path, content)
    return TensorRecord(path, "float32", (32, 32), "weight", value, exact, encodings)


def committed(commit: Commit, tensors: tuple[TensorRecord, ...] = ()) -> CommitRecord:
    return CommitRecord(commit.id, commit, 8192, 512, 4096, 3, tensors)


def commit(
    step: int, *parents: ObjectId, tensors: tuple[TensorRecord, ...] = (), tree: str = ""
) -> CommitRecord:
    content = Commit(
        tree=identifier("tree", step, tree),
        parents=parents,
        author="Ada <ada@example.org>",
        time=1_700_000_000_000_000 + step,
        message=f"step {step}",
        step=step,
        metrics=(("val_loss", 1 / (step + 1)), ("tokens", float(step))),
        exactness=BOUNDED,
        quantizer=QUANTIZER,
    )
    return committed(content, tensors)


def run(
    length: int, start: int = 0, *parents: ObjectId, moving: int = 3, frozen: int = 2
) -> Iterator[CommitRecord]:
    for step in range(start, start + length):
        changed = [tensor(f"model.{index}.weight", step, pack=step, chunks=2) for index in range(moving)]
        same = [tensor(f"base.{index}.weight", 0) for index in range(frozen)]
        record = commit(step, *parents, tensors=(*changed, *same))
        parents = (record.id,)
        yield record


def noted(target: ObjectId, time: int, **metrics: float) -> NoteRecord:
    note = Note(target, tuple(metrics.items()), "Grace", time)
    return NoteRecord(note.id, note.target, note.metrics, note.author, note.time)


def head(target: ObjectId | None, number: int = 1, name: str = "main") -> RefRecord:
    return RefRecord("heads", name, target, number)


def answers(lineage: Lineage, ids: list[ObjectId]) -> list[object]:
    """Everything an index says about a history."""
    of_each = [tensors(lineage, one) for one in ids]
    values = [metrics(lineage, name) for name in ("val_loss", "tokens", "accuracy")]
    return [commits(lineage), lineage.refs(), quantizers(lineage), lineage.has(ids), of_each, values]
