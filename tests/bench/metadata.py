"""What a commit stores beside its payloads, by part: `python -m tests.bench.metadata [RUN]`.

Every byte of the packs and of the manifest that the last of three commits wrote is counted once. Payloads
are chunks of codes and values; all else is metadata. In compressed parts a kind of content counts with what
leaving it out saves.
"""

import argparse
import pathlib
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import torch

from mvcs import Repository
from mvcs.delta import choose_opaque, decode
from mvcs.objects import Kind, ObjectId, cbor
from mvcs.store import Manifest, Placement
from mvcs.store.packs.entry import Entry
from mvcs.store.packs.footer import TRAILER_BYTES, Footer, Tail
from mvcs.store.packs.pack import HEADER_BYTES, scan
from tests.bench import results
from tests.bench.adam_states import adam_states

PAYLOAD = "payload"
PER_COMMIT = ("commit", "ancestors in the manifest", "names of packs", "frame of packs")
WAYS = {
    "bounded": ({"step_size": 0.5}, "2"),
    "bounded, no exact layer": ({"step_size": 0.5}, "0"),
    "exact": ({}, "2"),
}
_BARE = ObjectId(bytes(32))
_DESCRIPTIONS = {
    Kind.QUANTIZED: "quantized tensors",
    Kind.TENSOR: "exact tensors",
    Kind.TREE: "tree",
    Kind.COMMIT: PER_COMMIT[0],
}


def main() -> None:
    """Print the bytes of each part for every way to commit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", nargs="?", type=pathlib.Path, help="a folder of recorded checkpoints")
    parser.add_argument(
        "--tensors", type=int, default=1000, help="weights of 1,024 values where there is no run"
    )
    results.add_option(parser)
    options = parser.parse_args()
    torch.set_num_threads(1)
    states = recorded(options.run) if options.run else adam_states((32, 32), options.tensors, 3)
    rows = {name: measure(states, *way) for name, way in WAYS.items()}
    for name, row in rows.items():
        print(f"\n{name}: {row['tensors']} changed tensors")
        for part, count in row["parts"].items():
            share = f"{count / row['tensors']:12.1f} a tensor" if part not in PER_COMMIT else ""
            print(f"  {part:40}{count:12}{share}")
        print(f"  {'a changed tensor':40}{row['a_tensor']:12.1f}\n  {'a commit':40}{row['a_commit']:12}")
    results.write(options.json, {"load": results.load(), "commits": rows})


def recorded(folder: pathlib.Path) -> list[object]:
    """Return three checkpoints in a row from the middle of a run."""
    files = sorted(folder.glob("*.pt"))
    middle = len(files) // 2
    return [torch.load(file, weights_only=False) for file in files[middle - 1 : middle + 2]]


def measure(states: Sequence[object], quantizer: dict[str, float], layers: str) -> dict[str, object]:
    """Return what the last of some commits wrote, by part, and how many tensors it changed."""
    with tempfile.TemporaryDirectory() as folder, Repository.init(folder) as repository:
        repository.config_set("retention.exact_layers", layers)
        before: set[pathlib.Path] = set()
        trees = []
        for state in states:
            before = written(folder)
            trees.append(repository.show(repository.commit(state, **quantizer).id).tensors)
        parts = Counter[str]()
        for path in sorted(written(folder) - before):
            parts += pack_parts(path) if path.suffix == ".pack" else manifest_parts(path)
    old = {(tensor.path, tensor.value_id, tensor.exact_id) for tensor in trees[-2]}
    tensors = sum((tensor.path, tensor.value_id, tensor.exact_id) not in old for tensor in trees[-1])
    a_commit = sum(parts[part] for part in PER_COMMIT)
    others = parts.total() - parts[PAYLOAD] - a_commit
    return {
        "tensors": tensors,
        "parts": dict(parts.most_common()),
        "a_tensor": others / tensors,
        "a_commit": a_commit,
    }


def written(folder: str) -> set[pathlib.Path]:
    """Return the packs and manifests of a repository."""
    root = pathlib.Path(folder)
    return {*root.rglob("*.pack"), *root.glob(".mvcs/manifests/*/*")}


def manifest_parts(path: pathlib.Path) -> Counter[str]:
    """Return the bytes of the first record of a commit by part."""
    data = path.read_bytes()
    manifest = Manifest.decode(data, ObjectId(bytes.fromhex(path.stem)))
    alone = len(replace(manifest, ancestors=()).encode())
    frame = len(replace(manifest, ancestors=(), placement=Placement()).encode())
    names = alone - frame
    return Counter({PER_COMMIT[0]: frame, PER_COMMIT[1]: len(data) - alone, PER_COMMIT[2]: names})


def pack_parts(path: pathlib.Path) -> Counter[str]:
    """Return the bytes of a pack by part; together they are its length."""
    data = path.read_bytes()
    tail = Tail.parse(data[-TRAILER_BYTES:])
    stored = data[tail.footer_offset : -TRAILER_BYTES]
    found = Counter({PER_COMMIT[2]: HEADER_BYTES + TRAILER_BYTES})
    for offset, entry, payload, end in scan(data):
        bases = len(cbor.array_of([base.item for base in entry.bases])) if entry.bases else 0
        found["ids of bases in headers"] += bases
        found["headers of entries"] += end - offset - len(payload) - bases
        found += payload_parts(entry, payload)
    found += footer_parts(tail.footer(stored, path.stem), len(stored))
    assert found.total() == len(data), "every byte is counted once"
    return found


def payload_parts(entry: Entry, payload: memoryview) -> Counter[str]:
    """Return the bytes of a payload by what is in it; a bundle of several kinds by what each adds."""
    names = [_DESCRIPTIONS.get(member.kind, PAYLOAD) for member in entry.members]
    if len(set(names)) == 1:
        return Counter({names[0]: len(payload)})
    content = decode(entry.encoding, payload, lengths=entry.lengths, element=entry.element)
    cuts = [content[end - length : end] for length, end in zip(entry.lengths, entry.ends, strict=True)]

    def size(left_out: str) -> int:
        return stored_bytes(b"".join(cut for cut, name in zip(cuts, names, strict=True) if name != left_out))

    return shared(len(payload), {name: len(payload) - size(name) for name in dict.fromkeys(names)})


def footer_parts(footer: Footer, stored: int) -> Counter[str]:
    """Return the bytes of a footer by part: what it shrinks by as one after the other leaves."""
    steps: list[tuple[str, Callable[[Footer], Footer]]] = [
        ("ids of bases in footers", lambda one: with_entries(one, lambda entry: replace(entry, bases=()))),
        ("ids of chunks in footers", lambda one: without_ids(one, [Kind.CHUNK])),
        ("ids of tensors and trees in footers", lambda one: without_ids(one, list(Kind))),
    ]
    found, left = Counter[str](), stored
    for name, step in steps:
        footer = step(footer)
        smaller = 1 + stored_bytes(footer.encode())
        found[name] += left - smaller
        left = smaller
    found["places and lengths in footers"] += left
    return found


def with_entries(footer: Footer, change: Callable[[Entry], Entry]) -> Footer:
    """Return a footer with other headers."""
    return replace(
        footer, entries=tuple(replace(placed, entry=change(placed.entry)) for placed in footer.entries)
    )


def without_ids(footer: Footer, kinds: Iterable[Kind]) -> Footer:
    """Return a footer whose objects of some kinds have all the same id."""
    gone = set(kinds)
    entries = []
    for placed in footer.entries:
        pairs = zip(placed.ids, placed.entry.members, strict=True)
        entries.append(replace(placed, ids=tuple(_BARE if one.kind in gone else name for name, one in pairs)))
    return replace(footer, entries=tuple(entries))


def stored_bytes(content: bytes) -> int:
    """Return how many bytes a description takes."""
    return len(choose_opaque(content)[1])


def shared(total: int, worth: dict[str, int]) -> Counter[str]:
    """Share bytes among parts by what each is worth."""
    whole, found, left = sum(worth.values()) or 1, Counter[str](), total
    for name, each in list(worth.items())[1:]:
        found[name] = total * each // whole
        left -= found[name]
    found[next(iter(worth))] = left
    return found


if __name__ == "__main__":
    main()
