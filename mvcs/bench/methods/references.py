"""What others write exactly, as references: general compressors, coders of floats, mvcs itself.

Each is a coder of bytes (`mvcs.bench.codecs.coders`) that gets the tensors' values one after another. Those
that go by the checkpoint before get its values beside them; tensors new to it go to another coder.
Payloads have a checksum, for libraries may crash on damaged bytes.
"""

import importlib
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import zstandard

from mvcs.bench.codecs.coders import PLANES, XOR_PLANES, ZIPNN, Coder, Content, byte_planes, zstd
from mvcs.bench.methods.coding import compressed, decompressed, sealed, unsealed
from mvcs.bench.methods.method import (
    Floats,
    Method,
    Needs,
    Restored,
    Setting,
    Shapes,
    State,
    Tensors,
    before,
    floats_of,
    pack,
    shapes_of,
    unpack,
)
from mvcs.delta import Buffer, Bytes, ElementFormat, Encoding, choose_exact, decode

_FLOAT32 = ElementFormat(4, floating=True)
_EXPONENT, _SIGN = 23, 31
_MANTISSA = (1 << _EXPONENT) - 1


class Reference(Method):
    """A coder of bytes, and another one for tensors that the checkpoint before does not have.

    Constants are values like others.
    """

    def __init__(
        self,
        name: str,
        paper: str,
        coder: Coder,
        *,
        alone: Coder | None = None,
        differs: str = "",
        package: str = "",
    ) -> None:
        """Name it; `alone` is needed where `coder` is near."""
        self.name, self.paper, self.differs, self.package = name, paper, differs, package
        self._coders = (alone or coder, coder)
        self.chain = "all" if coder.near else "none"

    def code(self, tensors: Tensors, state: State | None, setting: Setting, needs: Needs) -> Sequence[bytes]:
        """Return a checksum and the payloads of both coders."""
        shapes, sections = shapes_of(tensors), []
        for coder, bases in zip(self._coders, self._bases(shapes, state), strict=True):
            content = _content({name: _bytes_of(tensors[name]) for name in bases}, bases)
            sections.append(pack([bytes(one) for one in coder.encode(content)] if content.size else []))
        return sealed(sections)

    def restore(self, sections: Sequence[bytes], shapes: Shapes, state: State | None) -> Restored:
        """Return the tensors."""
        found = dict[str, Floats]()
        parts = zip(self._coders, self._bases(shapes, state), unsealed(sections), strict=True)
        for coder, bases, section in parts:
            own = {name: shapes[name] for name in bases}
            content = _content({name: np.zeros(4 * prod(own[name]), np.uint8) for name in own}, bases)
            payloads = unpack(section)
            with library():
                values = b"".join(map(bytes, coder.decode(payloads, content))) if content.size else b""
            found.update(floats_of(values, own))
        return found, {"restored": found}

    def _bases(self, shapes: Shapes, state: State | None) -> list[dict[str, Floats | None]]:
        """Return what the tensors of each coder go by."""
        near = self._coders[1].near
        found = dict(before(state, "restored", shapes))
        alone: dict[str, Floats | None] = {
            name: None for name, base in found.items() if base is None or not near
        }
        return [alone, {name: base for name, base in found.items() if name not in alone}]


class Moonclip(Method):
    """Moonclip, a library that writes files: snapshots, and differences from the last whole one.

    It gets its own files again in an empty folder, so that it goes by nothing else.
    """

    name = "moonclip"
    paper = "the library Moonclip, zstd -3"
    differs = "a payload is what the files have that a save writes or changes, their padding in"
    package = "moonclip"
    chain = "first"

    def code(self, tensors: Tensors, state: State | None, setting: Setting, needs: Needs) -> Sequence[bytes]:
        """Return the names of the files that a save wrote, and the files."""
        known = {} if state is None else state.known["files"]
        given = {
            name: (one.shape, "float32", _bytes_of(one).tobytes())
            for name, one in tensors.items()
            if one.size
        }
        if not given:
            return sealed([b""])
        with tempfile.TemporaryDirectory() as folder:
            manager = _manager(Path(folder), known)
            manager.save_tensors(0 if state is None else state.known["saves"], given)
            manager.flush()
            del manager
            paths = sorted(path for path in Path(folder).rglob("*") if path.is_file())
            found = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
        written = {name: content for name, content in found.items() if known.get(name) != content}
        return sealed(["\n".join(written).encode(), *written.values()])

    def restore(self, sections: Sequence[bytes], shapes: Shapes, state: State | None) -> Restored:
        """Return the tensors of the newest snapshot."""
        known: Mapping[str, Any] = {"files": {}, "saves": 0} if state is None else state.known
        names, *contents = unsealed(sections)
        written = dict(zip(names.decode().split("\n") if contents else [], contents, strict=True))
        if not all(map(_FILE.fullmatch, written)):
            raise ValueError("it has files of other names")
        if not written:
            return {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}, known
        files = {**known["files"], **written}
        with tempfile.TemporaryDirectory() as folder, library():
            manager = _manager(Path(folder), files)
            _, found = manager.load_latest()
            newest = manager.describe_latest()
            del manager
        values = b"".join(bytes(found[name]) for name, shape in shapes.items() if prod(shape))
        whole = newest["base_snapshot_id"] if newest["is_delta"] else newest["id"]
        kept = {name: one for name, one in files.items() if not name.endswith(".pack") or whole in name}
        tensors = floats_of(values, shapes)
        return tensors, {"files": kept, "saves": known["saves"] + 1}


_FILE = re.compile(r"manifest\.json|snapshots/[0-9a-f-]{36}/(ranks\.json|rank_0\.pack)")


def _manager(folder: Path, files: Mapping[str, bytes]) -> Any:  # noqa: ANN401  # an optional package
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    manager = importlib.import_module("moonclip").MoonclipManager
    return manager(storage_root=str(folder), async_save=False, keep_base_in_memory=False)


@contextmanager
def library() -> Iterator[None]:
    """Turn what libraries raise on bytes that they did not write into ValueError."""
    try:
        yield
    except (OSError, RuntimeError, TypeError, zstandard.ZstdError) as error:
        raise ValueError(f"its library: {error}") from error


def _bytes_of(tensor: Floats) -> Bytes:
    return np.ascontiguousarray(tensor.astype("<f4")).reshape(-1).view(np.uint8)


def _content(tensors: Mapping[str, Bytes], bases: Mapping[str, Floats | None]) -> Content:
    found = [_bytes_of(base) for base in bases.values() if base is not None]
    return Content.cut(list(tensors.values()), found or None, _FLOAT32)


def _encode_lzma(content: Content) -> Sequence[Buffer]:
    return [compressed(content.whole.tobytes())]


def _decode_lzma(payloads: Sequence[Buffer], content: Content) -> Sequence[Buffer]:
    return [decompressed(bytes(payload), content.size) for payload in payloads]


def _encode_bitx(content: Content) -> Sequence[Buffer]:
    mixed = (content.whole ^ content.base).view("<u4")
    exponents = (mixed >> _EXPONENT & 255).astype(np.uint8)
    others = (mixed >> _SIGN << _EXPONENT | mixed & _MANTISSA).astype("<u4")
    planes = byte_planes(others.view(np.uint8), 4)[:3]
    return [_FRAME.encode(_plain(plane))[0] for plane in (exponents, *planes)]


def _decode_bitx(payloads: Sequence[Buffer], content: Content) -> Sequence[Buffer]:
    part = _plain(np.zeros(content.size // 4, np.uint8))
    exponents, *planes = (
        np.frombuffer(_FRAME.decode([payload], part)[0], np.uint8).astype(np.uint32) for payload in payloads
    )
    others = planes[0] | planes[1] << 8 | planes[2] << 16
    mixed = others >> _EXPONENT << _SIGN | exponents << _EXPONENT | others & _MANTISSA
    return [mixed.astype("<u4").view(np.uint8) ^ content.base]


def _plain(data: Bytes) -> Content:
    return Content((data,), None, ElementFormat(1, floating=False))


def _encode_z4ai(content: Content) -> Sequence[Buffer]:
    return [_z4ai().compress(content.whole.tobytes(), dtype="fp32", threads=1)]


def _decode_z4ai(payloads: Sequence[Buffer], content: Content) -> Sequence[Buffer]:
    return [_z4ai().decompress(bytes(payload), out=bytearray(content.size)) for payload in payloads]


def _encode_z4ai_delta(content: Content) -> Sequence[Buffer]:
    return [_z4ai().compress_delta(content.whole, content.base, dtype="fp32", threads=1)]


def _decode_z4ai_delta(payloads: Sequence[Buffer], content: Content) -> Sequence[Buffer]:
    out = bytearray(content.size)
    return [_z4ai().decompress_delta(bytes(payload), content.base, out=out) for payload in payloads]


def _z4ai() -> Any:  # noqa: ANN401  # an optional package
    return importlib.import_module("z4ai")


def _encode_pcodec(content: Content) -> Sequence[Buffer]:
    values = content.whole.view("<f4")
    if content.bases is not None:
        values = content.whole.view("<i4") - content.base.view("<i4")
    pcodec = importlib.import_module("pcodec")
    return [importlib.import_module("pcodec.standalone").simple_compress(values, pcodec.ChunkConfig())]


def _decode_pcodec(payloads: Sequence[Buffer], content: Content) -> Sequence[Buffer]:
    near = content.bases is not None
    values = np.zeros(content.size // 4, "<i4" if near else "<f4")
    (payload,) = payloads
    done = importlib.import_module("pcodec.standalone").simple_decompress_into(bytes(payload), values)
    if done.n_processed != values.size or not done.finished:
        raise ValueError(f"{done.n_processed} values instead of {values.size}")
    return [values + content.base.view("<i4") if near else values]


def _encode_exact(content: Content) -> Sequence[Buffer]:
    chosen = [
        choose_exact(one.whole, one.element, one.base if one.bases else None) for one in content.groups()
    ]
    return [bytes([encoding.value]) + bytes(payload) for encoding, payload in chosen]


def _decode_exact(payloads: Sequence[Buffer], content: Content) -> Sequence[Buffer]:
    return [
        decode(
            Encoding(bytes(payload[:1])[0]),
            payload[1:],
            lengths=[group.size],
            element=group.element,
            base=group.base if group.bases else None,
        )
        for payload, group in zip(payloads, content.groups(), strict=True)
    ]


_FRAME = zstd(3)
_PCODEC = Coder("pcodec", near=False, encode=_encode_pcodec, decode=_decode_pcodec)
_EXACT = Coder("exact", near=False, encode=_encode_exact, decode=_decode_exact)

REFERENCES: tuple[Method, ...] = (
    Reference("zstd-3", "zstd at level 3", zstd(3)),
    Reference("zstd-19", "zstd at level 19", zstd(19)),
    Reference(
        "lzma",
        "LZMA at its usual preset",
        Coder("LZMA", near=False, encode=_encode_lzma, decode=_decode_lzma),
    ),
    Reference("planes", "the four byte planes, zstd -3 each", PLANES),
    Reference(
        "xor-planes", "XOR with the checkpoint before, byte planes, zstd -3 each", XOR_PLANES, alone=PLANES
    ),
    Reference("zipnn", "ZipNN (its package)", ZIPNN, package="zipnn"),
    Reference(
        "z4ai",
        "z4ai (its package), without a reference",
        Coder("z4ai", near=False, encode=_encode_z4ai, decode=_decode_z4ai),
        package="z4ai",
    ),
    Reference(
        "z4ai-delta",
        "z4ai (its package), against the checkpoint before",
        Coder("z4ai-delta", near=True, encode=_encode_z4ai_delta, decode=_decode_z4ai_delta),
        alone=Coder("z4ai", near=False, encode=_encode_z4ai, decode=_decode_z4ai),
        package="z4ai",
    ),
    Reference(
        "bitx",
        "ZipLLM (NSDI 2026), BitX: XOR with the base, exponents apart from signs and mantissas, zstd -3",
        Coder("BitX", near=True, encode=_encode_bitx, decode=_decode_bitx),
        alone=zstd(3),
        differs=(
            "the base is the checkpoint before; signs and mantissas of float32 are three byte planes"
            " (the published code does bfloat16 alone)"
        ),
    ),
    Reference(
        "pcodec",
        "pcodec (its package) on the integer difference of the values' bits",
        Coder("pcodec, difference", near=True, encode=_encode_pcodec, decode=_decode_pcodec),
        alone=_PCODEC,
        package="pcodec",
    ),
    Moonclip(),
    Reference(
        "mvcs-exact",
        "what a commit of mvcs stores of exact weights, without its records",
        Coder("exact, near", near=True, encode=_encode_exact, decode=_decode_exact),
        alone=_EXACT,
    ),
)
"""In the order in which they are listed."""
