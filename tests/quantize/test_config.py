"""Settings are checked when given and when read."""

import pytest

from mvcs.errors import CorruptionError, UnsupportedFormatError, UsageError
from mvcs.quantize import QuantizerConfig

FULL = QuantizerConfig(bins=16, prune=0.2, protect=0.005, sigma=0.2)


@pytest.mark.parametrize("config", [QuantizerConfig(2), FULL, QuantizerConfig(253, 0, 0, 0)])
def test_fields_come_back(config):
    fields = config.to_fields()
    assert [name for name, _ in fields] == ["method", "bins", "prune", "protect", "sigma"]
    assert QuantizerConfig.from_fields(fields) == config


def test_numbers_are_stored_as_floats():
    assert QuantizerConfig(16, 0, 0, 1).to_fields()[2:] == [("prune", 0.0), ("protect", 0.0), ("sigma", 1.0)]
    assert all(type(value) is float for _, value in QuantizerConfig(16, 0, 0, 0).to_fields()[2:])


@pytest.mark.parametrize(
    "settings",
    [
        {"bins": 1},
        {"bins": 254},
        {"bins": 16.0},
        {"bins": True},
        {"bins": 16, "prune": 1},
        {"bins": 16, "prune": -0.1},
        {"bins": 16, "prune": float("nan")},
        {"bins": 16, "protect": 0.5},
        {"bins": 16, "protect": -0.1},
        {"bins": 16, "sigma": 1.5},
        {"bins": 16, "sigma": float("nan")},
        {"bins": 16, "method": "lattice"},
    ],
)
def test_impossible_settings_are_refused_with_a_hint(settings):
    with pytest.raises(UsageError) as refused:
        QuantizerConfig(**settings)
    assert refused.value.hint


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"bins": "16"}, CorruptionError),
        ({"bins": True}, CorruptionError),
        ({"bins": 1000}, CorruptionError),
        ({"prune": 0}, CorruptionError),
        ({"prune": 2.0}, CorruptionError),
        ({"sigma": "x"}, CorruptionError),
        ({"method": "lattice"}, UnsupportedFormatError),
        ({"method": ["kmeans"]}, UnsupportedFormatError),
        ({"more": 1}, UnsupportedFormatError),
    ],
)
def test_hostile_fields_are_refused(change, error):
    fields = list({**dict(FULL.to_fields()), **change}.items())
    with pytest.raises(error):
        QuantizerConfig.from_fields(fields)


def test_missing_fields_are_another_version():
    with pytest.raises(UnsupportedFormatError):
        QuantizerConfig.from_fields(FULL.to_fields()[1:])
