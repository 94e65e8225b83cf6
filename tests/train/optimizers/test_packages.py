"""Optimizers as packages ship them: what of their state is rounded, and that training goes on from it."""

import math
import warnings

import pytest
import torch
from torch import nn

from tests.train.optimizers.nets import committed, matrices, net, train

pytestmark = [
    pytest.mark.optimizers,
    # These packages are older than the Python and the torch that they run on here.
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"),
]


def from_package(package, kind, **settings):
    def made(model):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = pytest.importorskip(package)
        given = matrices(model) if kind == "Muon" else model.parameters()
        optimizer = getattr(module, kind)(given, **settings)
        if package == "schedulefree":
            optimizer.train()
        return optimizer

    return made


SOAP_KEPT = {"exp_avg", "exp_avg_sq", "GG", "Q"}
INVERSE = {"pre_cond_0", "inv_pre_cond_0", "pre_cond_1", "inv_pre_cond_1", "momentum_buffer"}


@pytest.mark.parametrize(
    ("package", "kind", "settings", "name", "rounded", "kept"),
    [
        ("schedulefree", "AdamWScheduleFree", {}, "schedule-free", {"z", "exp_avg_sq"}, set()),
        ("schedulefree", "RAdamScheduleFree", {}, "schedule-free", {"z", "exp_avg_sq"}, set()),
        ("schedulefree", "SGDScheduleFree", {"lr": 0.1}, "schedule-free", {"z"}, set()),
        ("lion_pytorch", "Lion", {}, "Lion", {"exp_avg"}, set()),
        ("pytorch_optimizer", "Lion", {}, "Lion", {"exp_avg"}, set()),
        ("pytorch_optimizer", "SOAP", {}, "SOAP", set(), SOAP_KEPT),
        ("pytorch_optimizer", "Shampoo", {"momentum": 0.9}, "Shampoo", set(), INVERSE),
        ("bitsandbytes.optim", "AdamW8bit", {}, "bitsandbytes", set(), {"__bnb_optimizer_quant_state__"}),
        ("bitsandbytes.optim", "Lion8bit", {}, "bitsandbytes", set(), {"__bnb_optimizer_quant_state__"}),
        (
            "transformers.optimization",
            "Adafactor",
            {"lr": 1e-3, "relative_step": False, "scale_parameter": False, "beta1": 0.9},
            "Adafactor",
            set(),
            {"exp_avg", "exp_avg_sq_row", "exp_avg_sq_col", "exp_avg_sq", "RMS"},
        ),
    ],
)
def test_what_is_rounded(tmp_path, package, kind, settings, name, rounded, kept):
    found = committed(tmp_path / "run", from_package(package, kind, **settings))

    assert (found.optimizer, found.rounded) == (name, rounded)
    assert found.kept >= kept
    assert found.commit.notes == []
    assert all(math.isfinite(loss) for loss in found.after)
    assert found.after[0] == pytest.approx(found.before[0], rel=0.05)


@pytest.mark.parametrize(
    ("package", "kind"),
    [
        ("pytorch_optimizer", "AdaBelief"),
        ("pytorch_optimizer", "Adan"),
        ("pytorch_optimizer", "Lamb"),
        ("pytorch_optimizer", "AdEMAMix"),
        ("pytorch_optimizer", "Prodigy"),
        ("torch_optimizer", "Lamb"),
        ("torch_optimizer", "AdaBelief"),
    ],
)
def test_what_is_not_known_is_kept_though_its_names_are_like_those_of_adam(tmp_path, package, kind):
    found = committed(tmp_path / "run", from_package(package, kind), moments="light")

    [note] = found.commit.notes
    assert "is not known: its moments are kept exactly" in note
    assert found.rounded == set()
    assert "exp_avg" in found.kept
    assert found.after == pytest.approx(found.before, rel=0.05)


def test_eight_bits_stay_on_their_grid_bit_for_bit(tmp_path):
    def made(model):
        return pytest.importorskip("bitsandbytes").optim.AdamW8bit(model.parameters(), min_8bit_size=256)

    found = committed(tmp_path / "run", made)

    model = net()
    optimizer = made(model)
    train(model, optimizer, range(4))
    whole, restored = optimizer.state_dict()["state"][0], found.state["optimizer"]["state"][0]
    [(name, codes)] = [(one, value) for one, value in whole.items() if isinstance(value, dict)]
    assert codes["state1"].dtype is torch.uint8
    assert all(torch.equal(codes[one], restored[name][one]) for one in codes)


def test_weights_of_schedule_free_training_stay_near_what_they_were(tmp_path):
    found = committed(tmp_path / "run", from_package("schedulefree", "AdamWScheduleFree", lr=1e-2))

    made = from_package("schedulefree", "AdamWScheduleFree", lr=1e-2)
    model: nn.Module = net()
    optimizer = made(model)
    train(model, optimizer, range(4))
    for number, kept in optimizer.state_dict()["state"].items():
        error = found.state["optimizer"]["state"][number]["z"] - kept["z"]
        most = 0.5 / 4 if kept["z"].dim() > 1 else 0.75 / 128
        assert error.abs().max() <= most * 2**0.3 * kept["z"].square().mean().sqrt()
