"""Packs taken apart, changed, and sealed anew, so that checksums, places and names are right again."""

import random
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blake3 import blake3

from mvcs.delta.encoding import Encoding, decode
from mvcs.errors import MvcsError
from mvcs.objects import cbor
from mvcs.objects.ids import checksum
from mvcs.store.packs.entry import FRAME_BYTES, OPAQUE
from mvcs.store.packs.footer import TRAILER_BYTES, Tail
from mvcs.store.packs.pack import name_of
from tests.soak.forgery import mutated

HEADER, FRAME, TAIL_START = 16, struct.Struct("<4sIQ16s"), struct.Struct("<QIIHHI")

NOT_ONE = (MvcsError, IndexError, TypeError, ValueError, struct.error)  # what taking bytes apart raises


@dataclass
class LoosePack:
    """A pack taken apart.

    Attributes:
        path: where it lies.
        header: its first bytes.
        entries: header and payload of each entry, as bytes.
        footer: what its footer says, with a row for each entry.
    """

    path: Path
    header: bytes
    entries: list[list[bytes]]
    footer: Any

    @classmethod
    def read(cls, path: Path) -> "LoosePack":
        """Take a whole pack apart."""
        data = path.read_bytes()
        tail = Tail.parse(data)
        stored = data[tail.footer_offset : -TRAILER_BYTES]
        raw = decode(Encoding(stored[0]), stored[1:], lengths=[tail.raw_length], element=OPAQUE)
        footer: Any = cbor.loads(raw)
        return cls(path, data[:HEADER], [_taken(data, row[0]) for row in footer], footer)

    def placed(self) -> None:
        """Have each row say where its entry lies."""
        offset = HEADER
        for row, parts in zip(self.footer, self.entries, strict=False):
            length = FRAME_BYTES + sum(map(len, parts))
            row[:2] = [offset, length]
            offset += length

    def sealed(self) -> bytes:
        """Return its bytes, with all sums right."""
        body = self.header + b"".join(_framed(*parts) for parts in self.entries)
        stored = bytes([Encoding.RAW]) + (told := cbor.dumps(self.footer))
        return body + stored + Tail(len(body), len(stored), len(told), b"").encode(stored)


def _taken(data: bytes, offset: int) -> list[bytes]:
    _, header, payload, _ = FRAME.unpack_from(data, offset)
    start = offset + FRAME_BYTES
    return [data[start : start + header], data[start + header : start + header + payload]]


def _framed(header: bytes, payload: bytes) -> bytes:
    return FRAME.pack(b"MVCE", len(header), len(payload), checksum(header + payload)) + header + payload


def forge_pack(drawn: random.Random, store: Path) -> str:
    """Change one thing in one pack and seal it; at times under its new name, which records then have."""
    path = drawn.choice(sorted(store.rglob("*.pack")))
    pack = LoosePack.read(path)
    way = drawn.choice(WAYS)
    for _ in range(20):
        try:
            way(drawn, pack)
            data = pack.sealed()
            break
        except NOT_ONE:
            pack = LoosePack.read(path)
    else:
        return "nothing"
    path.write_bytes(data)
    if drawn.random() < 0.5:
        _named_anew(store, path, data)
    return f"{way.__name__[1:]} in {path.parent.parent.name}"


def _payload(drawn: random.Random, pack: LoosePack) -> None:
    parts = drawn.choice(pack.entries)
    parts[1] = damaged(drawn, parts[1])
    pack.placed()


def _header(drawn: random.Random, pack: LoosePack) -> None:
    """Change what an entry's header says, at times without its footer's knowing."""
    index = drawn.randrange(len(pack.entries))
    told = mutated(drawn, cbor.loads(pack.entries[index][0]))
    pack.entries[index][0] = cbor.dumps(told)
    if drawn.random() < 0.9:
        pack.footer[index][2] = told
    pack.placed()


def _raw_header(drawn: random.Random, pack: LoosePack) -> None:
    parts = drawn.choice(pack.entries)
    parts[0] = damaged(drawn, parts[0])
    pack.placed()


def _footer(drawn: random.Random, pack: LoosePack) -> None:
    pack.footer = mutated(drawn, pack.footer)


def _exchanged(drawn: random.Random, pack: LoosePack) -> None:
    """Put the payload, or the ids, of one entry in the place of another's."""
    one, other = drawn.randrange(len(pack.entries)), drawn.randrange(len(pack.entries))
    if drawn.random() < 0.5:
        pack.entries[one][1] = pack.entries[other][1]
    else:
        pack.footer[one][3] = pack.footer[other][3]
    pack.placed()


def _repeated(drawn: random.Random, pack: LoosePack) -> None:
    """Have an entry again, or lose it; or all of them in another order."""
    index = drawn.randrange(len(pack.entries))
    if drawn.random() < 0.5:
        pack.entries.append([*pack.entries[index]])
        pack.footer.append([*pack.footer[index]])
    elif len(pack.entries) > 1 and drawn.random() < 0.5:
        del pack.entries[index], pack.footer[index]
    else:
        pack.entries.reverse()
        pack.footer.reverse()
    pack.placed()


def _based(drawn: random.Random, pack: LoosePack) -> None:
    """Have an entry lean on another object, as on itself, so that bases may run in a circle."""
    index = drawn.randrange(len(pack.entries))
    told: Any = cbor.loads(pack.entries[index][0])
    row = drawn.choice(pack.footer)
    told[1] = drawn.choice([5, 7, 8, 10, 11])
    told[3] = [drawn.choice(row[3])[:16] for _ in told[0]]
    pack.entries[index][0] = cbor.dumps(told)
    pack.footer[index][2] = told
    pack.placed()


def _start(drawn: random.Random, pack: LoosePack) -> None:
    pack.header = damaged(drawn, pack.header)


WAYS: tuple[Callable[[random.Random, LoosePack], None], ...] = (
    *(_payload, _payload, _payload, _header, _header, _raw_header),
    *(_footer, _footer, _exchanged, _repeated, _based, _start),
)


def damaged(drawn: random.Random, data: bytes) -> bytes:
    """Return bytes with something in them flipped, cut, put in, written over or repeated."""
    changed = bytearray(data)
    for _ in range(drawn.choice((1, 1, 1, 2, 8))):
        at = drawn.randrange(len(changed) + 1)
        end = at + drawn.choice((1, 1, 2, 4, 16, 256))
        way = drawn.randrange(7)
        if way == 0 and at < len(changed):
            changed[at] ^= 1 << drawn.randrange(8)
        elif way == 1:
            changed[at:end] = bytes(len(changed[at:end]))
        elif way == 2:
            changed[at:end] = b"\xff" * len(changed[at:end])
        elif way == 3:
            del changed[at:end]
        elif way == 4:
            changed[at:at] = drawn.randbytes(end - at)
        elif way == 5:
            other = drawn.randrange(len(changed) + 1)
            changed[at:at] = changed[other : other + end - at]
        else:
            changed[at:end] = drawn.randbytes(len(changed[at:end]))
    return bytes(changed)


def _named_anew(store: Path, path: Path, data: bytes) -> None:
    """Give a pack the name that its bytes have, and have the records that name it follow."""
    old, new = bytes.fromhex(path.stem), bytes.fromhex(name_of(data) or blake3(data).hexdigest())
    if old == new:
        return
    target = path.parent.parent / new.hex()[:2] / f"{new.hex()}.pack"
    target.parent.mkdir(exist_ok=True)
    path.rename(target)
    for record in _records(store):
        body = record.read_bytes()[:-16]
        if old in body:
            body = body.replace(old, new)
            record.write_bytes(body + checksum(body))


def _records(store: Path) -> list[Path]:
    found = [path for folder in ("refs", "retention", "manifests") for path in (store / folder).rglob("*")]
    return sorted(path for path in found if path.is_file() and path.name[-8:].isdigit())


def forge_record(drawn: random.Random, store: Path) -> str:
    """Change what a record of a ref, of drops or of a manifest says, and seal it."""
    path = drawn.choice(_records(store))
    data = path.read_bytes()
    magic, told = data[:8], cbor.loads(data[8:-16])
    first = magic == b"MVCSMAN1" and isinstance(told[-1], list)
    opened = _opened(told) if first else None
    for _ in range(20):
        try:
            body = magic + cbor.dumps(_closed(mutated(drawn, opened)) if first else mutated(drawn, told))
            break
        except MvcsError:
            continue
    path.write_bytes(body + checksum(body))
    kind, below, *_ = path.relative_to(store).parts
    return f"a changed record of {kind if kind == 'manifests' else below}"


def _opened(told: Any) -> Any:
    """Return what the first record of a manifest says, its description unpacked."""
    *others, (length, stored) = told
    return [*others, cbor.loads(decode(Encoding(stored[0]), stored[1:], lengths=[length], element=OPAQUE))]


def _closed(told: Any) -> Any:
    """Return it with the description as it is stored, if there is one still."""
    if not isinstance(told, list) or len(told) != 5:
        return told
    raw = cbor.dumps(told[-1])
    return [*told[:-1], [len(raw), bytes([Encoding.RAW]) + raw]]
