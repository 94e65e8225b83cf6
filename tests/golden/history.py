"""The history that the golden files hold: made with integers alone, so that it is the same everywhere."""

import json
import pathlib
import struct
from collections import Counter, OrderedDict

import blake3
import numpy as np

STEPS = 4
LARGE = 2**128 + 1


def state(step: int) -> dict[str, object]:
    """Return the state of a step: weights that move a little, and one of each kind of leaf."""
    index = np.arange(48 * 16, dtype=np.int64)
    start = (index * 7919 % 1009 - 504) / 1024
    moved = np.where(index % 5 == step % 5, step / 2048, 0.0)
    weight = (start + moved).astype(np.float32).reshape(48, 16)
    special = np.array([0x7FC00001, 0x80000000, 0x7F800000, 0x00000001], np.uint32).view(np.float32)
    return {
        "model": OrderedDict(weight=weight, half=weight[:4].astype(np.float16), special=special),
        "counts": {"step": step, "large": LARGE - step, 3: None, True: -0.0},
        "masks": (np.array([True, False]), np.arange(6, dtype=np.int64).reshape(2, 3), np.array(2.5)),
        "complex": [np.array([1 + 2j], np.complex64), 1 - 2j],
        "rest": {
            "text": "naïve",
            "raw": b"\0\1",
            "set": {1, "a", 2.5},
            "counter": Counter(a=2),
            "none": None,
        },
        "empty": np.zeros((0, 3), np.uint8),
    }


def files() -> dict[str, bytes]:
    """Return files by name: a safetensors file and one that is not a checkpoint."""
    header = {"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}
    text = json.dumps(header, separators=(",", ":")).encode()
    tensors = struct.pack("<Q", len(text)) + text + struct.pack("<2f", 1.0, -2.0)
    return {"model/weights.safetensors": tensors, "model/vocab.txt": b"a\nb\n"}


def write_files(folder: pathlib.Path) -> None:
    """Write the files below a folder."""
    for name, content in files().items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)


def flat(value: object, path: str = "") -> dict[str, tuple[str, str, bytes]]:
    """Return every leaf of a state by path: its type, shape or nothing, and its bytes or text."""
    if isinstance(value, dict):
        parts = [(f"{path}/{key!r}", item) for key, item in value.items()]
    elif isinstance(value, list | tuple):
        parts = [(f"{path}/{index}", item) for index, item in enumerate(value)]
    elif isinstance(value, np.ndarray):
        content = value.astype(value.dtype.newbyteorder("<")).tobytes()
        return {path: (value.dtype.name, str(value.shape), content)}
    elif isinstance(value, np.generic):
        return flat(np.array(value), path)
    else:
        text = sorted(map(repr, value)) if isinstance(value, set | frozenset) else repr(value)
        return {path: (type(value).__name__, "", str(text).encode())}
    return {"": ("", "", b""), path: (type(value).__name__, str(len(parts)), b"")} | {
        name: leaf for child, item in parts for name, leaf in flat(item, child).items() if name
    }


def digest(value: object) -> str:
    """Return one hash over all leaves of a state, the same on every machine."""
    return blake3.blake3(repr(sorted(flat(value).items())).encode()).hexdigest()
