"""All methods by name."""

from collections.abc import Mapping
from types import MappingProxyType

from mvcs.bench.methods.cnr import CNR
from mvcs.bench.methods.deltadnn import DeltaDNN
from mvcs.bench.methods.excp import ExCP
from mvcs.bench.methods.gobo import GOBO
from mvcs.bench.methods.inshrinkerator import HE, PE, RLE, Inshrinkerator
from mvcs.bench.methods.lc import LC
from mvcs.bench.methods.method import Method
from mvcs.bench.methods.qd import QD, Uniform
from mvcs.bench.methods.references import REFERENCES
from mvcs.bench.methods.sz3 import SZ3, SZ3Delta
from mvcs.bench.methods.ultradelta import UltraDelta

_METHODS: tuple[Method, ...] = (
    Inshrinkerator(),
    HE(),
    RLE(),
    PE(),
    QD(),
    Uniform(),
    LC(),
    DeltaDNN(),
    CNR(),
    GOBO(),
    ExCP(),
    UltraDelta(),
    SZ3(),
    SZ3Delta(),
    *REFERENCES,
)
METHODS: Mapping[str, Method] = MappingProxyType({method.name: method for method in _METHODS})
"""In the order in which they are listed."""
