"""All methods by name."""

from collections.abc import Mapping
from types import MappingProxyType

from mvcs.bench.methods.lc import LC
from mvcs.bench.methods.method import Method
from mvcs.bench.methods.qd import QD, Uniform

METHODS: Mapping[str, Method] = MappingProxyType({method.name: method for method in (QD(), Uniform(), LC())})
"""In the order in which they are listed."""
