"""Settings are checked when given and when read."""

import copy
import pickle

import pytest

from mvcs.errors import CorruptionError, UnsupportedFormatError, UsageError
from mvcs.quantize import KMeansConfig, LatticeConfig, MomentsConfig, QuantizerConfig

FULL = KMeansConfig(
    16, 0.2, 0.005, 0.2, "++", 7, metric="sensitivity", protect_metric="magnitude", embedding_bins=32
)
LATTICE = LatticeConfig(
    step_size=0.35, hysteresis=0.1, share="tensor", moments=MomentsConfig(0.5, 1.0), small=None
)
CONFIGS = [QuantizerConfig(2), FULL, QuantizerConfig(253, 0, 0, 0), LatticeConfig(), LATTICE]


@pytest.mark.parametrize("config", CONFIGS)
def test_fields_come_back(config):
    fields = config.to_fields()
    assert fields[0] == ("method", config.method)
    assert QuantizerConfig.from_fields(fields) == config
    assert QuantizerConfig.from_fields([(name, value) for name, value in fields]).to_fields() == fields


def test_fields_have_an_order():
    assert [name for name, _ in FULL.to_fields()] == [
        *("method", "bins", "prune", "protect", "sigma", "init", "seed"),
        *("metric", "protect_metric", "embedding_bins", "small", "first", "second"),
    ]
    assert LATTICE.to_fields() == [
        ("method", "lattice"),
        ("step_size", 0.35),
        ("hysteresis", 0.1),
        ("share", "tensor"),
        ("steps", None),
        ("small", None),
        ("first", 0.5),
        ("second", 1.0),
    ]


def test_settings_of_no_named_method_are_those_of_kmeans():
    config = QuantizerConfig(bins=16, prune=0.1)
    assert config == KMeansConfig(16, 0.1)
    assert isinstance(LatticeConfig(), QuantizerConfig)
    assert (config.prune, LatticeConfig().prune, LatticeConfig().protect) == (0.1, 0.0, 0.0)


@pytest.mark.parametrize("config", CONFIGS)
def test_settings_are_values(config):
    assert copy.copy(config) == config == pickle.loads(pickle.dumps(config))
    assert hash(config) == hash(copy.deepcopy(config))


def test_numbers_are_stored_as_floats():
    fields = dict(KMeansConfig(16, 0, 0, 1, small=1).to_fields())
    assert all(type(fields[name]) is float for name in ("prune", "protect", "sigma", "small"))
    assert LatticeConfig(1, 0) == LatticeConfig(1.0, 0.0)
    assert dict(LatticeConfig(moments=MomentsConfig(1, 2)).to_fields())["second"] == 2.0


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
        {"bins": 16, "metric": "size"},
        {"bins": 16, "metric": "magnitude", "protect_metric": "size"},
        {"bins": 16, "metric": "momentum", "protect_metric": "sensitivity"},
        {"bins": 16, "embedding_bins": 1},
        {"bins": 16, "sigma": float("nan")},
        {"bins": 16, "init": "random"},
        {"bins": 16, "seed": -1},
        {"bins": 16, "seed": 1.5},
        {"bins": 16, "small": 0},
        {"bins": 16, "small": 2},
    ],
)
def test_impossible_settings_are_refused_with_a_hint(settings):
    with pytest.raises(UsageError) as refused:
        QuantizerConfig(**settings)
    assert refused.value.hint


@pytest.mark.parametrize(
    "settings",
    [
        {"step_size": 0},
        {"step_size": float("nan")},
        {"step_size": float("inf")},
        {"hysteresis": -0.1},
        {"hysteresis": 0.6},
        {"hysteresis": float("nan")},
        {"share": "model"},
        {"small": -1.0},
    ],
)
def test_impossible_lattices_are_refused_with_a_hint(settings):
    with pytest.raises(UsageError) as refused:
        LatticeConfig(**settings)
    assert refused.value.hint


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("dropped", 2.0),
        (0.0, 1.0),
        (-1.0, 1.0),
        (float("nan"), 1.0),
        (True, 1.0),
        ("sign", "sign"),
        ("sign", 3.0),
        ("sign", 0.0),
        ("sign", "exact"),
        (0.5, "exact"),
        ("absent", float("nan")),
        ("absent", "absent"),
    ],
)
def test_moments_that_nobody_can_keep_are_refused_with_a_hint(first, second):
    with pytest.raises(UsageError) as refused:
        MomentsConfig(first, second)
    assert refused.value.hint


def test_moments_have_named_tiers():
    assert MomentsConfig.named("resume") == MomentsConfig() == MomentsConfig("sign", 2.0)
    assert MomentsConfig.named("exact") == MomentsConfig("exact", "exact")
    assert MomentsConfig.named("light") == MomentsConfig("carried", "rank-1")
    scales = [MomentsConfig("absent", second).scale for second in (0.5, 1.0, 2.0, "rank-1")]
    assert scales == [22, 23, 24, 23]
    with pytest.raises(UsageError):
        MomentsConfig.named("heavy")


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"bins": "16"}, CorruptionError),
        ({"bins": True}, CorruptionError),
        ({"bins": 1000}, CorruptionError),
        ({"prune": 0}, CorruptionError),
        ({"prune": 2.0}, CorruptionError),
        ({"sigma": "x"}, CorruptionError),
        ({"init": "+++"}, CorruptionError),
        ({"metric": "size"}, CorruptionError),
        ({"metric": None}, CorruptionError),
        ({"protect_metric": 1}, CorruptionError),
        ({"embedding_bins": 16.0}, CorruptionError),
        ({"seed": 1.0}, CorruptionError),
        ({"small": "x"}, CorruptionError),
        ({"first": None}, CorruptionError),
        ({"first": "second"}, CorruptionError),
        ({"second": 2}, CorruptionError),
        ({"second": "exact"}, CorruptionError),
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
    for fields in (FULL.to_fields()[1:], LATTICE.to_fields()[:-1], []):
        with pytest.raises(UnsupportedFormatError):
            QuantizerConfig.from_fields(fields)


def test_a_score_is_looked_at_only_where_something_depends_on_it():
    assert KMeansConfig(16).score is None
    assert KMeansConfig(16, 0.1).score == "momentum"
    assert KMeansConfig(16, 0.1, 0.01, metric="magnitude").score is None
    by_both = {"metric": "magnitude", "protect_metric": "sensitivity"}
    assert KMeansConfig(16, 0.1, 0.01, **by_both).score == "sensitivity"
    assert KMeansConfig(16, 0.1, **by_both).score is None
    assert KMeansConfig(16, 0.0, 0.01, metric="momentum", protect_metric="magnitude").score is None


@pytest.mark.parametrize(
    "steps", ["", "[" * 100_000, "[]", '{"a":256}', '{"a":-1}', '{"a":1.5}', '{"a":true}', "null"]
)
def test_steps_that_are_none_are_refused(steps):
    fields = [(name, steps if name == "steps" else value) for name, value in LatticeConfig().to_fields()]
    with pytest.raises(CorruptionError, match="impossible"):
        QuantizerConfig.from_fields(fields)


def test_steps_are_one_text_sorted_by_layer_type():
    config = LatticeConfig(steps=(("b", 210), ("a.#.weight", 199)))
    fields = dict(config.to_fields())
    assert fields["steps"] == '{"a.#.weight":199,"b":210}'
    assert QuantizerConfig.from_fields(config.to_fields()) == config
    with pytest.raises(UsageError, match="share='type'"):
        LatticeConfig(share="tensor", steps=(("a", 1),))
