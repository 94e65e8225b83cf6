"""Small files that are no work of torch.save are refused before they cost anything, real ones never."""

import io
import pickle
import struct
import warnings
import zipfile
from collections import Counter, OrderedDict
from contextlib import suppress

import numpy as np
import pytest
import torch

from mvcs.checkpoint.files import capture_files
from mvcs.errors import FileFormatError
from tests.checkpoint.test_torch_files import assert_equal

BIG = np.arange(1, 5001, dtype="<f4").tobytes()
SEVEN = np.full(5000, 7, "<f4").tobytes()


def text(value):
    return b"X" + struct.pack("<I", len(value.encode())) + value.encode()


def named(module, name):
    return f"c{module}\n{name}\n".encode()


def number(value):
    return b"\x8a\x08" + struct.pack("<q", value)


def tensor(key, elements, shape, view=b""):
    storage = text("storage") + named("torch", "FloatStorage") + text(key) + text("cpu") + number(elements)
    made = named("torch._utils", "_rebuild_tensor_v2") + b"((" + storage + view + b"tQK\x00"
    return made + number(shape) + b"\x85K\x01\x85\x89" + named("collections", "OrderedDict") + b")RtR"


def changed(made, grad=b"\x89", metadata=b""):
    """A tensor as `tensor` has it, with another gradient, or metadata."""
    hooks = named("collections", "OrderedDict") + b")R"
    return made.replace(b"\x89" + hooks, grad + hooks + metadata)


def pickled(value, key=None):
    """A dict of one value."""
    return b"\x80\x02}" + (text("w") if key is None else key) + value + b"s."


def zipped(content, members=()):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("archive/data.pkl", content)
        archive.writestr("archive/version", "3\n")
        for name, data in dict(members).items():
            archive.writestr(f"archive/{name}", data)
    return buffer.getvalue()


def older(content, keys=(), data=b""):
    system = {
        "protocol_version": 1001,
        "little_endian": True,
        "type_sizes": {"short": 2, "int": 4, "long": 4},
    }
    front = [pickle.dumps(value, 2) for value in (0x1950A86A20F9469CFC6C, 1001, system)]
    return b"".join([*front, content, pickle.dumps(list(keys), 2), data])


def called(module, name, arguments):
    return named(module, name) + arguments + b"R"


def laughs(depth):
    value = [1]
    for _ in range(depth):
        value = [value] * 4
    return pickle.dumps({"x": value}, 2)


def tuple_key(depth):
    nested = b"K\x01\x85" + b"".join(b"q" + bytes([at]) + b"h" + bytes([at]) + b"\x86" for at in range(depth))
    return pickled(b"K\x01", nested)


def copies(count):
    """A list, and sets of it that stand nowhere."""
    many = pickle.dumps(list(range(10_000)), 2)[2:-1] + b"q\xff"
    return b"\x80\x02" + many + count * (named("builtins", "set") + b"h\xff\x85R") + b"."


def alike(count):
    keys = [(2**61 - 1) * (at + 2) for at in range(count)]
    return pickle.dumps(dict.fromkeys(keys), 2)


SHARED = text("x" * 100_000) + b"q\x01"
WEIGHTS = {"data/0": BIG, "data/1": SEVEN}
HOSTILE = {
    "a key without a value": zipped(b"\x80\x02}(" + text("a") + b"u."),
    "something else than a storage outside": zipped(b"\x80\x02" + text("elsewhere") + b"Q."),
    "a storage shorter than its member": zipped(pickled(tensor("0", 1024, 1024)), WEIGHTS),
    "a small storage of a large member": zipped(pickled(tensor("0", 1000, 1000)), WEIGHTS),
    "a storage longer than its member": zipped(pickled(tensor("0", 100, 100)), {"data/0": b"abcd"}),
    "a storage that is not there": zipped(pickled(tensor("2", 5000, 5000)), WEIGHTS),
    "a storage under another case": zipped(pickled(tensor("0", 5000, 5000)), {"DATA/0": BIG}),
    "two members that differ in case": zipped(
        pickled(tensor("0", 5000, 5000)), {"data/0": BIG, "Data/0": SEVEN}
    ),
    "a tensor larger than its storage": zipped(pickled(tensor("0", 5000, 5001)), WEIGHTS),
    "lists in lists": zipped(laughs(12)),
    "endless lists in lists": zipped(laughs(30)),
    "a long text in a list": zipped(b"\x80\x02](" + SHARED + b"h\x01" * 10_000 + b"e."),
    "bytes by number": zipped(pickled(called("builtins", "bytearray", number(4 << 30) + b"\x85"))),
    "older bytes by number": older(pickled(called("__builtin__", "bytearray", number(4 << 30) + b"\x85"))),
    "a key of tuples": zipped(tuple_key(40)),
    "keys of one hash": zipped(alike(100)),
    "copies that nothing keeps": zipped(copies(1000)),
    "text in a slow encoding": zipped(
        pickled(called("_codecs", "encode", text("x" * 9000) + text("punycode") + b"\x86"))
    ),
    "memory by number": zipped(pickled(called("torch", "FloatStorage", number(1 << 32) + b"\x85"))),
    "a tensor by number": zipped(pickled(called("torch", "Tensor", number(1 << 32) + b"\x85"))),
    "a function in a function": zipped(
        pickled(
            called(
                "torch._tensor",
                "_rebuild_from_type_v2",
                b"("
                + named("builtins", "bytearray")
                + named("torch", "Tensor")
                + number(1 << 32)
                + b"\x85Nt",
            )
        )
    ),
    "a gradient of whole numbers": zipped(
        pickled(changed(tensor("0", 5000, 5000).replace(b"FloatS", b"IntS"), b"\x88")), WEIGHTS
    ),
    "real numbers that are conjugated": zipped(
        pickled(changed(tensor("0", 5000, 5000), metadata=b"}" + text("conj") + b"\x88s")), WEIGHTS
    ),
    "numbers that stand for others": zipped(
        pickled(tensor("0", 20_000, 20_000).replace(b"FloatS", b"QInt8S")), WEIGHTS
    ),
    "a tensor that is given other data": zipped(
        pickled(
            called(
                "torch._utils",
                "_rebuild_parameter_with_state",
                b"(" + tensor("0", 5000, 5000) + b"\x89N}" + text("data") + tensor("1", 5000, 5000) + b"st",
            )
        ),
        WEIGHTS,
    ),
    "a device that torch has not": zipped(pickled(called("torch", "device", text("abacus") + b"\x85"))),
    "a layout that is a function": zipped(
        pickled(called("torch.serialization", "_get_layout", text("builtins.set") + b"\x85"))
    ),
    "bytes in an unknown order": zipped(
        pickled(tensor("0", 5000, 5000)), {**WEIGHTS, "byteorder": b"middle"}
    ),
    "older memory of another length": older(
        pickled(tensor("0", 2, 2, b"N")), ["0"], struct.pack("<q", 1) + bytes(8)
    ),
    "older memory that is not there": older(pickled(tensor("0", 1 << 30, 1, b"N")), ["0"], bytes(99)),
    "older memory that nothing fills": older(pickled(tensor("0", 1000, 1000, b"N")), [], bytes(9000)),
    "an older tensor larger than its storage": older(
        pickled(tensor("0", 2, 100, b"N")), ["0"], struct.pack("<q", 2) + bytes(8)
    ),
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_it_is_refused_or_kept_as_it_is(tmp_path, content, kept):
    path = tmp_path / "x.pt"
    path.write_bytes(content)
    with suppress(FileFormatError):
        assert "x.pt" in kept(path)


def test_the_bytes_of_a_file_are_not_taken_for_a_place_in_it(tmp_path):
    plain = zipped(pickled(tensor("sub/0", 5000, 5000)), {"data/sub/0": BIG, "data/1": SEVEN})
    place = struct.pack("<Q", plain.index(SEVEN))
    path = tmp_path / "x.pt"
    for front in (place, bytes(16) + place):
        path.write_bytes(plain.replace(BIG, front + BIG[len(front) :]))
        (leaf,) = capture_files([path], tmp_path).leaves
        assert leaf.source.read() == front + BIG[len(front) :]


def test_hashes_of_few_keys_may_be_alike(tmp_path, hold_files):
    (tmp_path / "x.pt").write_bytes(zipped(alike(10)))
    assert len(hold_files(tmp_path / "x.pt").tree.files[0].node[1]) == 10


def named_tensor():
    tensor = torch.randn(5)
    tensor.note = "hello"
    return tensor


def real():
    """One of everything that torch.save writes without code and a commit holds."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Embedding(50, 32), torch.nn.BatchNorm1d(32), torch.nn.LSTM(32, 32, 2)
    )
    tied = torch.nn.Linear(32, 50)
    tied.weight = model[0].weight
    optimizers = [kind(model.parameters()) for kind in (torch.optim.AdamW, torch.optim.Adagrad)]
    for optimizer in optimizers:
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)
        optimizer.step()
    shared = [1, {"betas": (0.9, 0.99)}]
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizers[0], max_lr=0.1, total_steps=9)
    return {
        "epoch": 1,
        "pytorch-lightning_version": "2.1",
        "state_dict": model.state_dict(),
        "optimizer_states": [optimizer.state_dict() for optimizer in optimizers],
        "lr_schedulers": [schedule.state_dict(), {"milestones": Counter({3: 2})}],
        "loops": {"fit": {"state_dict": {}}},
        "rng": torch.get_rng_state(),
        "tied": [model[0].weight, tied.weight, tied.state_dict()],
        "shared": [shared] * 500,
        "plain": [
            None,
            True,
            1.5,
            -5,
            1 << 200,
            "é" * 300,
            b"\x00\xff" * 300,
            1 + 2j,
            (1, (2,), (), (1, 2, 3, 4)),
        ],
        "containers": [bytearray(b"ab"), bytearray(), {1, "a"}, set(), Counter("aab"), Counter()],
        "ordered": [OrderedDict(a=1), OrderedDict()],
        "torch": [torch.Size([2, 3]), torch.Size([]), torch.device("cuda:1"), torch.bfloat16],
        "keys": {1: 2, False: 3, "x": 4},
        "types": [torch.ones(5000, dtype=kind) for kind in (torch.float64, torch.bool, torch.complex128)],
        "parameters": [torch.nn.Parameter(torch.ones(2), requires_grad=False), *model.parameters()],
        "note": named_tensor(),
        "shapes": [torch.tensor(3.0), torch.empty(0, 3), torch.ones(5000).expand(3, 5000)],
        "strides": torch.randn(100, 100)[::2, ::3],
        "views": [torch.randn(2000, dtype=torch.complex64).conj(), torch._neg_view(torch.randn(3000))],
    }


def newer():
    """What the older form cannot hold."""
    return {
        "types": [torch.ones(5000).to(kind) for kind in (torch.bfloat16, torch.float8_e5m2, torch.uint16)],
        "whole": torch.zeros(8000, dtype=torch.uint8).view(torch.float32),
    }


@pytest.mark.parametrize(("state", "zip_file"), [(real, True), (real, False), (newer, True)])
def test_what_torch_writes_comes_back(tmp_path, hold_files, state, zip_file):
    path = tmp_path / "x.pt"
    torch.save(state(), path, _use_new_zipfile_serialization=zip_file)
    (written,) = hold_files(path).write(tmp_path / "out")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert_equal(torch.load(written, weights_only=True), torch.load(path, weights_only=True))


def test_a_view_of_part_of_an_element_is_read(tmp_path):
    path = tmp_path / "x.pt"
    whole = torch.arange(10_001).to(torch.uint8)
    torch.save({"w": whole[:10_000].view(torch.float32)}, path)
    (leaf,) = capture_files([path], tmp_path).leaves
    assert leaf.source.read() == whole[:10_000].numpy().tobytes()


def test_a_quantized_tensor_is_named(tmp_path, kept):
    path = tmp_path / "x.pt"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.save({"q": torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.qint8)}, path)
    assert "x.pt.q: a quantized tensor cannot be stored" in kept(path)
