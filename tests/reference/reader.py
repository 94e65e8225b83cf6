"""A second reader of a store of format 1, written from `docs/format` alone; it imports nothing of mvcs.

It is made to be read beside the pages: names are theirs. It reads whole files, one symbol at a time, and
never writes. `reader_objects.py` has objects, `reader_payloads.py` payloads, and this module all else.
"""

import io
import json
import re
import struct
import sys
import urllib.parse
import zipfile
import zlib
from collections import Counter
from contextlib import suppress
from functools import partial, partialmethod
from itertools import accumulate, pairwise

import numpy as np

from tests.reference import reader_objects as objects
from tests.reference import reader_payloads as payloads
from tests.reference.reader_objects import (
    CHUNK,
    COMMIT,
    ID,
    MAYBE_ID,
    NULL,
    NUMBER,
    TIME,
    either,
    object_id,
    parse,
    shaped,
)
from tests.reference.reader_payloads import (
    CorruptionError,
    Cursor,
    MissingError,
    UnsupportedError,
    known,
    must,
)

# packs.md.

_VERSION = struct.pack("<HHI", 1, 2, 0)
_MEMBER = (objects.only(NUMBER, (CHUNK, objects.BLOB, objects.TREE, COMMIT)), NUMBER)
_ELEMENT = objects.only(NUMBER, [number for number in range(16) if number & 7 < 5])
_BASES = objects.either(objects.NULL, [objects.either(16, (16, NUMBER))])
_HEADER = ([_MEMBER], objects.only(NUMBER, payloads.DECODERS), _ELEMENT, _BASES)
_FOOTER = [(NUMBER, NUMBER, object, [ID])]


class Entry:
    """Members, and how they are stored; once decoded, their contents and the entries behind these."""

    def __init__(self, header, payload, stored):
        members, self.encoding, self.element, self.bases = shaped(header, _HEADER, "a header")
        self.kinds, self.lengths = [kind for kind, _ in members], [length for _, length in members]
        self.payload, self.stored = payload, stored
        self.ids, self.contents, self.behind = [], [], set()
        must(members and sum(self.lengths) <= 1 << 26, "an entry without members, or of too many bytes")
        must((self.bases is not None) == (self.encoding in payloads.NEAR), "needless bases, or none")
        must(self.bases is None or len(self.bases) == len(members), "a member without a base")
        most = {payloads.RAW: 1 << 16, payloads.ZSTD: 1 << 16, payloads.ZSTD_DELTA: 1}.get(self.encoding)
        if most is None:
            size = 1 << (self.element & 7)
            most = 4096 if sum(self.lengths) // size <= 1 << 22 else 1
            must(set(self.kinds) == {CHUNK}, "other members than chunks")
            must(not any(length % size for length in self.lengths), "not whole elements")
        must(len(members) <= most, "too many members or elements")

    @classmethod
    def at(cls, data, at=0):
        """Return the entry that begins there."""
        must(data[at : at + 4] == b"MVCE" and len(data) >= at + 32, "not an entry")
        header_length, payload_length = struct.unpack_from("<IQ", data, at + 4)
        body = data[at + 32 : at + 32 + header_length + payload_length]
        must(len(body) == header_length + payload_length, "an entry ends too early")
        must(objects.plain_hash(body)[:16] == data[at + 16 : at + 32], "an entry's checksum does not match")
        return cls(parse(body[:header_length]), body[header_length:], 32 + len(body))

    def decode(self, bases):
        """Return the content of each member, near the contents of their bases."""
        if self.bases and self.encoding != payloads.ZSTD_DELTA:
            lengths = [length * (2 if self.encoding == payloads.NARROWED else 1) for length in self.lengths]
            must([len(base) for base in bases] == lengths, "a base of another length")
        near = None if self.bases is None else b"".join(bases)
        content = payloads.decode(self.encoding, self.element, self.lengths, self.payload, near)
        return [content[start:end] for start, end in pairwise(accumulate(self.lengths, initial=0))]


class Pack:
    """A whole pack, each entry compared with its checksum, and all with the name and the footer."""

    def __init__(self, name, data, *, exact):
        self.name, self.exact, self.entries, trailer = name, exact, [], data[-48:]
        must(data[:8] == b"MVCSPACK" and len(data) >= 64, "not a pack")
        must(trailer[40:] == b"MVCSTAIL", "a truncated pack")
        known(data[8:16] == trailer[16:24] == _VERSION, "version, features or reserved bytes of a pack")
        offset, length, size = struct.unpack_from("<QII", trailer)
        stored, hashed, at = data[offset:-48], bytearray(data[:16]), 16
        must(0 < length == len(stored) <= 1 << 28, "a footer elsewhere")
        found = objects.plain_hash(trailer[:24] + stored)[:16]
        must(found == trailer[24:40], "a footer's checksum does not match")
        known(stored[0] in {payloads.RAW, payloads.ZSTD}, f"encoding {stored[0]} of a footer")
        must(size <= 1 << 28 and _plausible(size, length, 1 << 18), "an implausible footer")
        rows = shaped(parse(payloads.decode(stored[0], 0, [size], stored[1:])), _FOOTER, "a footer")
        must(len(rows) <= 1 << 16, "too many entries in a footer")
        for start, stated, header, ids in rows:
            entry = Entry.at(data, at)
            must((start, stated) == (at, entry.stored), "the footer has an entry elsewhere")
            must(data.startswith(objects.canonical(header), at + 32), "the footer has another header")
            must(len(ids) == len(entry.kinds), "a member without an id")
            entry.ids = ids
            must(exact or all(type(base) is bytes for base in entry.bases or []), "restored values as bases")
            hashed += data[at : at + 32]
            self.entries.append(entry)
            at += stated
        must(at == offset, "the footer is not behind the last entry")
        must(objects.plain_hash(hashed + data[at:]) == name, "a pack of another name")


def _plausible(length, stored, always=1 << 16):
    return length <= always or length <= stored * (4 if length > 1 << 20 else 16)


# files.md: safetensors files, and those that have a layout.


def laid_out(restore, structure, header):
    """Return the bytes of a file with a layout; None where another file is written in its place."""
    numbers = list(dict.fromkeys(objects.tensors_in(structure)))
    layout = Cursor(restore.value(header))
    size = struct.unpack("<Q", layout.take(8))[0]
    must(size <= 256 * (len(numbers) + 1), "a table too long")
    table, file = parse(layout.take(size)), io.BytesIO()
    must(len({row[1] for row in table}) == len(table), "a tensor with two pieces")
    lossy = [not restore.exact and restore.leaves[number].quantized is not None for number in numbers]
    for gap, number, order, swapped, *packed in table:
        file.write(layout.take(gap))
        tensor = restore.tensor(numbers[number])
        tensor = tensor if order is None else tensor.transpose(order)
        content = tensor.tobytes()
        if swapped:
            content = np.frombuffer(content, f"<u{swapped}").byteswap().tobytes()
        if packed:
            head, level, length, check = packed
            packer, content = zlib.compressobj(level, zlib.DEFLATED, -15), layout.take(head) + content
            runs = [content[at : at + (1 << 20)] for at in range(0, len(content), 1 << 20)]
            content = b"".join(map(packer.compress, runs)) + packer.flush()
            if lossy[number] or (length, check) != (len(content), zlib.crc32(content)):
                return None
        file.write(content)
    file.write(layout.take(layout.left()))
    if any(lossy[row[1]] for row in table):
        checksums(file)
    return file.getvalue()


def checksums(file):
    """Make the checksums of a zip archive right."""
    try:
        archive = zipfile.ZipFile(file)
    except zipfile.BadZipFile:
        return
    content, at = bytearray(file.getvalue()), archive.start_dir
    for one in archive.infolist():
        here = one.header_offset
        begin = here + 30 + sum(struct.unpack_from("<HH", content, here + 26))
        end = begin + one.compress_size
        check = zlib.crc32(content[begin:end])
        if check != one.CRC and one.compress_type == zipfile.ZIP_STORED:
            described = one.flag_bits & 8 and content[end : end + 4] == b"PK\x07\x08"
            for place in (at + 16, end + 4 if described else here + 14):
                struct.pack_into("<I", content, place, check)
        at += 46 + sum(struct.unpack_from("<HHH", content, at + 28))
    file.seek(0)
    file.write(content)


def marked(header, commit_id):
    """Return the header of a safetensors file with the mark of a lossy restore, where it can have one."""
    tensors, depth, key = json.loads(header), 0, ""
    metadata = tensors.pop("__metadata__", {})
    if not tensors or metadata is None:
        return header
    field, place = f'"mvcs.restored":"{commit_id.hex()} value', header.index("{") + 1
    put = f'"__metadata__":{{{field}{6 * " "}"}},'
    for sign in re.finditer(r'"(?:[^"\\]|\\.)*"|[{}\[\]]', header):
        if depth == 1 and sign[0] == "{" and key == "__metadata__":
            place, put = sign.end(), f'{field}",{7 * " "}' if metadata else f'{field}"{8 * " "}'
        key = json.loads(sign[0]) if sign[0][0] == '"' else ""
        depth += (sign[0] in "{[") - (sign[0] in "}]")
    return header[:place] + put + header[place:]


def safetensors(restore, structure, header, commit_id):
    """Return the bytes of a safetensors file."""
    header, tensors = restore.value(header), restore.value(structure)
    ends = accumulate((tensor.nbytes for tensor in tensors.values()), initial=0)
    places = dict(zip(tensors, map(list, pairwise(ends)), strict=True))
    rows = json.loads(header).items()
    described = {name: row["data_offsets"] for name, row in rows if name != "__metadata__"}
    must(described == places, "a header of other tensors")
    if not restore.exact and any(restore.leaves[tensor[1]].quantized for _, tensor in structure[1]):
        header = marked(header.decode(), commit_id).encode()
    return struct.pack("<Q", len(header)) + header + b"".join(tensor.tobytes() for tensor in tensors.values())


# README.md: records; refs.md and drops.md.

_KEY = range(100_000_000)
_RECORD = {"number": _KEY, "target": MAYBE_ID, "previous": MAYBE_ID, "time": TIME}
_RECORD |= {"author": str, "action": str, "content": bytes, "write id": 16}
_PLAIN = b"abcdefghijklmnopqrstuvwxyz0123456789._-"
_SPECIAL = re.compile(r"^\.|\.$|^(?=(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|$)).")


def segment(name):
    """Return the segment of a ref's name."""
    content = name.encode("utf-8", "surrogatepass")
    escaped = "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in content)
    return _SPECIAL.sub(lambda sign: f"%{ord(sign[0]):02X}", escaped)


def name_of(folder):
    """Return the name whose segment this is, or None where it is none."""
    with suppress(UnicodeError):
        name = urllib.parse.unquote_to_bytes(folder).decode("utf-8", "surrogatepass")
        return name if name and len(folder) <= 255 and segment(name) == folder else None


def sealed(data, magic, most):
    """Return what a record holds, whose magic begins with these seven bytes."""
    must(len(data) <= most and data[:7] == magic, "not a record")
    known(data[7:8] == b"1", "version of a record")
    must(objects.plain_hash(data[:-16])[:16] == data[-16:], "a record's checksum does not match")
    return parse(data[8:-16])


def record(kind, name, data):
    """Return the number and the fields of a record of a ref, and its hash."""
    values = sealed(data, b"MVCSREF", 1 << 20)
    known(not objects.fits(values, (object,) * 9), "record with a pack, of before the pages were closed")
    fields = objects.named(values, _RECORD, "a record")
    target, content = fields["target"], fields["content"]
    must((fields["previous"] is None) == (fields["number"] == 0), "a record without the one before")
    if kind == "tags" and target:
        must(objects.described(objects.TAG, content)["commit"] == target, "a tag of another commit")
    elif kind == "notes" and target:
        must(object_id(objects.NOTE, content) == target, "a note of another id")
        must(objects.described(objects.NOTE, content)["commit"].hex() == name, "a note of another commit")
    else:
        must(not content, "content of a branch or of a deletion")
    return fields["number"], fields, objects.plain_hash(data)


def drop(data):
    """Return the number of a drop record, and the packs that it names of each commit's layer."""
    number, rows = shaped(sealed(data, b"MVCSDRP", 1 << 26), (_KEY, [[object]]), "a drop record")
    found = {}
    for row in rows:
        known(len(row) < 5, "item of a drop")
        shaped([*row, []][:4], (ID, [ID], TIME, objects.pairs(object)), "a drop")
        found.setdefault(row[0], []).extend(row[1])
    return number, found


def upgrade(data):
    """Return the number, the name and the scope that the record of an upgrade tells."""
    shape = (_KEY, str, object, TIME, str)
    number, name, scope, *_ = shaped(sealed(data, b"MVCSUPG", 1 << 16), shape, "an upgrade")
    known(objects.fits(scope, range(2)), f"scope {scope}")
    return number, name, scope


def _records(folder, read, pattern=8 * "[0-9]"):
    """Return what the records of a folder say, the newest first; their number stands in front."""
    found = []
    for path in sorted(folder.glob(pattern)):
        must(path.is_file(), "a record that is no file")
        found.append(read(path.read_bytes()))
        must(path.name[-8:] == f"{99_999_999 - found[-1][0]:08d}", "a record under another key")
    return found


# manifests.md.

_WRITTEN = (bytes, either(NULL, NUMBER), (range(1 << 62),) * 4, [ID])
_DROPPED = either(NULL, (TIME, either(NULL, _KEY), str))


def manifest(commit_id, data):
    """Return the number of a record, its packs, what it says of a drop, and of number 0 its rows as well.

    A row is the id, the content and the exact packs of a commit.
    """
    values = sealed(data, b"MVCSMAN", 1 << 24)
    known(type(values) is list and len(values) == 5, "number of items in a manifest")
    number, own, others, dropped, told = shaped(values, (_KEY, [ID], [ID], _DROPPED, object), "a manifest")
    rows = [] if number else _described(told)
    must((rows[0][0] if rows else told) == commit_id, "the manifest of another commit")
    return number, own + others, dropped, rows


def _described(told):
    length, stored = shaped(told, (range(1, (1 << 26) + 1), bytes), "a description")
    must(stored and _plausible(length, len(stored), 1 << 18), "an implausible description")
    known(stored[0] in {payloads.RAW, payloads.ZSTD}, f"encoding {stored[0]} of a description")
    rows = parse(payloads.decode(stored[0], 0, [length], stored[1:]))
    must(1 <= len(shaped(rows, [_WRITTEN], "a description")) <= 21, "too many commits, or none")
    found = []
    for short, cut, _, exact_packs in rows[::-1]:
        content = short
        if cut is not None:
            must(found and cut <= len(short), "an id is left out that the next row does not tell")
            content = short[:cut] + found[-1][0] + short[cut:]
        found.append((object_id(COMMIT, content), content, exact_packs))
    return found[::-1]


# README.md and packs.md: a store.


class Store:
    """A store in a folder. Packs that cannot be read are in `damaged`, and then take no part."""

    def __init__(self, folder):
        _check_description(folder)
        self.folder, self.packs, self.damaged, self._places = folder, {}, {}, {}
        for path in sorted(folder.glob("packs/*/*.pack")) + sorted(folder.glob("exact/*/*.pack")):
            if re.fullmatch("[0-9a-f]{64}", path.stem) and path.parent.name == path.stem[:2]:
                self._take_up(bytes.fromhex(path.stem), path)
        names = [path.name.partition(".")[0] for path in folder.glob("manifests/*/*." + 8 * "[0-9]")]
        own = [bytes.fromhex(name) for name in dict.fromkeys(names) if re.fullmatch("[0-9a-f]{64}", name)]
        self.manifests = {one: self._manifest(one) for one in own}
        sys.setrecursionlimit(max(sys.getrecursionlimit(), 10_000))  # a chain of bases may be long

    def _take_up(self, name, path):
        try:
            pack = self.packs[name] = Pack(name, path.read_bytes(), exact=path.parts[-3] == "exact")
        except (CorruptionError, UnsupportedError) as error:
            self.damaged[name] = error
            return
        for entry in pack.entries:
            for member, (kind, own) in enumerate(zip(entry.kinds, entry.ids, strict=True)):
                self._places.setdefault((kind, own[:16]), []).append((pack, entry, member))

    def _manifest(self, own):
        """Return the records of a commit, the newest first."""
        folder = self.folder / "manifests" / own.hex()[:2]
        return _records(folder, partial(manifest, own), f"{own.hex()}.{8 * '[0-9]'}")

    # Objects.

    def content(self, kind, own, layer=None):
        """Return an object by its id, or half of it: one of the value layer, or of an exact layer as well."""
        entry, member = self._found(kind, own, layer, ())
        return entry.contents[member]

    def _found(self, kind, own, layer, way):
        """Return a decoded entry and the number of the object in it; `way` are the entries above."""
        error = MissingError(f"{objects.KINDS[kind]} {own.hex()} is not there; damaged: {len(self.damaged)}")
        for pack, entry, member in self._places.get((kind, own[:16]), []):
            if not pack.exact or (layer and pack.name in layer[0]):
                try:
                    self._decode(entry, layer if pack.exact else None, way)
                    found = object_id(kind, entry.contents[member])
                    must(found.startswith(own), "an object has another id than the footer says")
                except (CorruptionError, UnsupportedError, MissingError) as failed:
                    error = failed
                else:
                    return entry, member
        raise error

    def _decode(self, entry, layer, way):
        must(entry not in way, "bases lead back to an entry that they came from")
        if entry.contents:
            return
        bases, behind = [], {entry}
        for kind, base in zip(entry.kinds, entry.bases or [], strict=False):
            if type(base) is bytes:
                below, member = self._found(kind, base, layer, (*way, entry))
                bases.append(below.contents[member])
                behind |= below.behind
            else:
                must(layer and base[0] in layer[1], "the base is no tensor of the commit")
                bases.append(layer[1][base[0]].restored(base[1], self.content))
        stored = sum(one.stored for one in behind)
        for kind, length in zip(entry.kinds, entry.lengths, strict=True):
            must(kind == CHUNK or _plausible(length, stored), "an implausible description")
        entry.contents, entry.behind = entry.decode(bases), behind

    def scan(self):
        """Decode and hash every member of every entry; return how often each encoding was seen."""
        seen = Counter()
        for name, pack in self.packs.items():
            owners = [own for own in self.manifests if name in self.exact_packs(own)]
            layer = self.layer(owners[0]) if owners else None
            for entry in pack.entries:
                self._decode(entry, layer, ())
                must(list(map(object_id, entry.kinds, entry.contents)) == entry.ids, "a footer has other ids")
                seen[entry.encoding] += 1
        return seen

    # Commits.

    def first(self, own):
        """Return the row of a commit in its own manifest: its id, its content and its exact packs."""
        records = self.manifests.get(own, [])
        if not records or records[-1][0]:
            raise MissingError(f"commit {own.hex()} has no manifest")
        return records[-1][3][0]

    def commit(self, own):
        return objects.described(COMMIT, self.first(own)[1])

    def exact_packs(self, own):
        return self.first(own)[2]

    def value_packs(self, own):
        """Return the packs in which the newest number says that the value layer lies."""
        self.first(own)
        return self.manifests[own][0][1]

    def dropped(self, own):
        """Return time, rules and reason where the data of a commit were given up."""
        self.first(own)
        return self.manifests[own][0][2]

    def tree(self, commit_id):
        return objects.tree(self.content(objects.TREE, self.commit(commit_id)["tree"]))

    def layer(self, commit_id):
        """Return the exact packs of a commit, and by half their ids the tensors that are bases there."""
        tensors = [leaf.quantized for leaf in self.tree(commit_id)[1] if leaf.quantized]
        return self.exact_packs(commit_id), {tensor.id[:16]: tensor for tensor in tensors}

    def history(self):
        """Return every commit that a branch or a tag reaches."""
        found, waiting = {}, [*self.branches().values(), *self.tags().values()]
        while waiting:
            own = waiting.pop()
            if own not in found:
                found[own] = self.commit(own)
                waiting += found[own]["parents"]
        return list(found)

    def state(self, commit_id, *, exact=False):
        """Return what a commit restores to, a state or one for each path; arrays stand for tensors."""
        files, restore = self._restored(commit_id, exact)
        found = {path: restore.value(structure) for path, _, structure, _ in files}
        return found.get("", found)  # a state has no path

    def files(self, commit_id, *, exact=False):
        """Return the files of a commit that the pages say every byte of: those with a layout too."""
        files, restore = self._restored(commit_id, exact)
        found = {}
        for path, kind, structure, header in files:
            if kind == "opaque":
                found[path] = restore.value(structure)
            elif kind == "safetensors":
                found[path] = safetensors(restore, structure, header, commit_id)
            elif header is not None:
                found[path] = laid_out(restore, structure, header)
        return found

    def _restored(self, commit_id, exact):
        files, leaves = self.tree(commit_id)
        fetch = partial(self.content, layer=self.layer(commit_id) if exact else None)
        return files, objects.Restore(leaves, fetch, exact=exact)

    # Names.

    def notes(self):
        """Return the notes of each commit, the oldest first."""
        found = {}
        for name, row in self.reflog("notes").items():
            contents = [fields["content"] for _, fields, _ in row[::-1] if fields["target"]]
            found[name] = [objects.described(objects.NOTE, content) for content in contents]
        return found

    def targets(self, kind):
        """Return the commit of each branch or tag."""
        newest = {name: row[0][1]["target"] for name, row in self.reflog(kind).items() if row}
        return {name: target for name, target in newest.items() if target}

    branches, tags = partialmethod(targets, "heads"), partialmethod(targets, "tags")

    def reflog(self, kind):
        """Return the records of each ref, the newest first."""
        folders = {name_of(path.name): path for path in self.folder.glob(f"refs/{kind}/*") if path.is_dir()}
        found = {}
        for name in folders.keys() - {None}:
            found[name] = _records(folders[name], partial(record, kind, name))
            for (new, fields, _), (old, _, own) in pairwise(found[name]):
                must(new == old + 1, "a record is gone")
                must(fields["previous"] in {own, bytes(32)}, "a record was exchanged")
        return found

    def drops(self):
        """Return the packs of exact layers that were given up, by commit."""
        found = {}
        for _, packs in _records(self.folder / "retention/drops", drop)[::-1]:
            for commit_id, names in packs.items():
                found.setdefault(commit_id, []).extend(names)
        return found


def _check_description(folder):
    try:
        data = (folder / "mvcs.json").read_bytes()
        found = json.loads(data)
    except FileNotFoundError as error:
        raise MissingError("there is no mvcs.json") from error
    except ValueError as error:
        raise CorruptionError("mvcs.json is not JSON") from error
    must(type(found) is dict and type(found.get("format")) is int, "mvcs.json has no format")
    known(found["format"] == 1, f"format {found['format']}")
    known(found.get("features") == ["manifests"], f"features {found.get('features')}")
    values = [found.get(key) for key in ("store", "project", "default_branch", "exclusive_create")]
    must(len(data) <= 65536 and objects.fits(values, (str, str, str, bool)), "mvcs.json is damaged")
    must(all(re.fullmatch("[0-9a-f]{32}", number) for number in values[:2]), "mvcs.json is damaged")
    upgrades = _records(folder / "format", upgrade, "[0-9]*")
    known([number for number, *_ in upgrades[::-1]] == list(range(len(upgrades))), "upgrade that is missing")
    for _, name, scope in upgrades:
        known(scope == 1, f"upgrade {name}")  # who changes nothing may go on beside the others
