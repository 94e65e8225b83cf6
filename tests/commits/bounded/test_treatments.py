"""What a bounded commit does with each leaf of real states."""

from itertools import chain

import pytest
import torch
from safetensors.torch import save_file

from mvcs.checkpoint.files import capture_files
from mvcs.checkpoint.known_optimizers import Moment
from mvcs.checkpoint.roles import MOMENT_NAMES, Role, roles_of
from mvcs.checkpoint.state.state import capture_state
from mvcs.commits.plan.anatomy import Anatomy, masters
from mvcs.commits.plan.treatments import MomentKinds, MomentTiers, Treatment, plan
from mvcs.quantize import MomentsConfig


def planned(state, *, moments=True):
    return planned_of(capture_state(state), moments=moments)


def planned_of(captured, *, moments=True):
    anatomy = Anatomy(captured)
    config = MomentsConfig.RESUME if moments else MomentsConfig.EXACT
    kinds, tiers = MomentKinds.of(anatomy.optimizers, config), MomentTiers(config)
    found = plan(captured.leaves, roles_of(captured), masters(captured.leaves), kinds, tiers)
    items = chain.from_iterable(found)
    return {".".join(map(str, captured.leaves[item.index].path)): item for item in items}, captured


def trained(make):
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4))
    optimizer = make(model.parameters())
    model(torch.randn(2, 3, 8, 8)).square().mean().backward()
    optimizer.step()
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict()}


def test_a_model_with_batch_norm_and_adam():
    found, captured = planned(trained(torch.optim.AdamW))

    assert {path: item.treatment for path, item in found.items() if path.startswith("model")} == {
        "model.0.weight": Treatment.WEIGHT,
        "model.0.bias": Treatment.FINE,
        "model.1.weight": Treatment.FINE,
        "model.1.bias": Treatment.FINE,
        "model.1.running_mean": Treatment.FINE,
        "model.1.running_var": Treatment.VARIANCE,
        "model.1.num_batches_tracked": Treatment.EXACT,
    }
    assert found["optimizer.state.0.step"].treatment is Treatment.EXACT
    first, second = found["optimizer.state.0.exp_avg"], found["optimizer.state.0.exp_avg_sq"]
    assert (first.treatment, second.treatment) == (Treatment.FIRST, Treatment.SECOND)
    assert captured.leaves[first.source].path[-1] == "exp_avg_sq"


def test_every_leaf_once_and_second_moments_before_their_first():
    found, captured = planned(trained(torch.optim.AdamW))
    order = [item.index for item in found.values()]

    assert sorted(order) == list(range(len(captured.leaves)))
    for item in found.values():
        assert item.source is None or order.index(item.source) < order.index(item.index)


def test_sgd_has_a_momentum():
    found, _ = planned(trained(lambda parameters: torch.optim.SGD(parameters, 0.1, momentum=0.9)))

    assert found["optimizer.state.0.momentum_buffer"].treatment is Treatment.MOMENTUM


def test_moments_stay_exact_when_asked():
    found, _ = planned(trained(torch.optim.AdamW), moments=False)

    assert found["optimizer.state.0.exp_avg"].treatment is Treatment.EXACT
    assert found["optimizer.state.0.exp_avg_sq"].treatment is Treatment.EXACT


def test_a_lone_first_moment_is_a_momentum():
    state = {"optimizer": {"state": {0: {"exp_avg": torch.ones(3, 4)}}, "param_groups": []}}

    found, _ = planned(state)

    assert found["optimizer.state.0.exp_avg"].treatment is Treatment.MOMENTUM


def test_a_first_moment_of_another_shape_stays_exact():
    moments = {"exp_avg": torch.ones(3, 4), "exp_avg_sq": torch.ones(3)}
    found, _ = planned({"optimizer": {"state": {0: moments}, "param_groups": []}})

    assert found["optimizer.state.0.exp_avg"].treatment is Treatment.EXACT


def test_names_joined_by_dots_are_found_beside_each_other():
    state = {
        "optimizer.state.0.exp_avg": torch.ones(3, 4),
        "optimizer.state.0.exp_avg_sq": torch.ones(3, 4),
        "optimizer.state.1.exp_avg_sq": torch.zeros(3, 4),
    }
    found, captured = planned(state)

    first = found["optimizer.state.0.exp_avg"]
    assert captured.leaves[first.source].path == ("optimizer.state.0.exp_avg_sq",)


def test_a_rounded_copy_refers_to_its_master():
    master = torch.randn(3, 4)

    found, captured = planned({"model": {"w": master.bfloat16()}, "master": {"w": master}})

    assert found["model.w"].treatment is Treatment.COPY
    assert captured.leaves[found["model.w"].source].path == ("master", "w")
    assert list(found) == ["master.w", "model.w"]


def test_factored_and_unknown_moments_stay_exact():
    moments = {"exp_avg_sq_row": torch.ones(4), "exp_inf": torch.ones(3, 4), "sum": torch.ones(3, 4)}
    found, _ = planned({"optimizer": {"state": {0: moments}, "param_groups": []}})

    assert {item.treatment for item in found.values()} == {Treatment.EXACT}


@pytest.mark.parametrize("name", sorted(MOMENT_NAMES))
def test_no_tensor_of_a_model_is_a_moment_by_its_name(name):
    model = {name: torch.ones(3, 4), f"norm.{name}": torch.ones(4), "inner": {name: torch.ones(3, 4)}}

    found, _ = planned({"model": model})

    assert {path: item.treatment for path, item in found.items()} == {
        f"model.{name}": Treatment.WEIGHT,
        f"model.norm.{name}": Treatment.FINE,
        f"model.inner.{name}": Treatment.WEIGHT,
    }


def test_what_an_evaluation_may_see_is_never_rounded_as_a_moment():
    """A model may have an optimizer in its state, and whoever plans may be told that a leaf is a moment."""
    inner = {"state": {0: {"momentum_buffer": torch.ones(3, 4)}}, "param_groups": [{"params": [0]}]}
    state = {"model": {"w": torch.ones(3, 4), "inner": inner}}

    found, captured = planned(state)
    told = MomentKinds(dict.fromkeys(range(2), Moment.SECOND))
    forced = plan(captured.leaves, [Role.MOMENT] * 2, {}, told, MomentTiers(MomentsConfig.RESUME))

    assert found["model.inner.state.0.momentum_buffer"].treatment is Treatment.EXACT
    assert {item.treatment for group in forced for item in group} == {Treatment.EXACT}


NAMED = {
    "in a key of a nested state": {"optimizer": {"0.exp_avg": torch.ones(3, 4)}, "step": 1},
    "of an unknown form": {"optimizer": {"moments": {"w": {"exp_avg": torch.ones(3, 4)}}}},
    "in no optimizer": {"net": {"exp_avg": torch.ones(3, 4)}},
    "in no optimizer, flat": {"opt.exp_avg.w": torch.ones(3, 4)},
    "beside a state": {
        "o": {"state": {}, "param_groups": [{"params": [0]}], "more": {0: {"exp_avg": torch.ones(3, 4)}}}
    },
    "deep in a state": {"o": {"state": {0: {"a": {"exp_avg": torch.ones(3, 4)}}}, "param_groups": []}},
}


@pytest.mark.parametrize("where", NAMED)
def test_names_alone_tell_nothing(where):
    captured = capture_state(NAMED[where])
    found, _ = planned_of(captured)
    anatomy = Anatomy(captured)

    assert {item.treatment for item in found.values()} == {Treatment.EXACT}
    [note] = MomentKinds.of(anatomy.optimizers, MomentsConfig.RESUME).notes
    assert note.startswith("the optimizer that keeps exp_avg is not known: its moments are kept exactly")
    described = MomentsConfig.described({"exp_avg": "momentum"})
    kinds = MomentKinds.of(anatomy.optimizers, described)
    assert (list(kinds.leaves.values()), kinds.notes) == ([Moment.MOMENTUM], ())


def test_names_tell_in_a_file_of_tensors_alone(tmp_path):
    second, mean = torch.ones(3, 4), torch.zeros(3, 4)
    names = {"0.exp_avg": mean, "0.exp_avg_sq": second, "1.square_avg": second, "1.grad_avg": mean}
    tensors = {name: value.clone() for name, value in names.items()}
    save_file(tensors, tmp_path / "optimizer.safetensors")
    save_file(tensors, tmp_path / "other.safetensors")

    found, _ = planned_of(capture_files([tmp_path], tmp_path))

    assert {path: item.treatment for path, item in found.items() if item.treatment != "exact"} == {
        "optimizer.safetensors.0.exp_avg": Treatment.FIRST,
        "optimizer.safetensors.0.exp_avg_sq": Treatment.SECOND,
    }
