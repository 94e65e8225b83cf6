"""What an optimizer has of each parameter comes back to that parameter, bit for bit."""

import logging
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler as schedules

from mvcs.errors import UsageError
from mvcs.repository import Repository
from mvcs.train import Checkpointer

Made = Callable[[nn.ModuleDict], torch.optim.Optimizer]


def net() -> nn.ModuleDict:
    torch.manual_seed(0)
    return nn.ModuleDict({name: nn.Linear(6, 6, bias=False) for name in "abc"})


def stepped(model: nn.Module, optimizer: torch.optim.Optimizer, steps: range = range(2)) -> None:
    """Give each parameter a gradient of its own, by its name."""
    for step in steps:
        for name, parameter in model.named_parameters():
            generator = torch.Generator().manual_seed(step * 1000 + sum(name.encode()))
            if parameter.requires_grad:
                parameter.grad = torch.randn(parameter.shape, generator=generator).to(parameter)
        optimizer.step()
        optimizer.zero_grad()


def committed(repo: Repository, made: Made, **options: Any) -> tuple[nn.ModuleDict, torch.optim.Optimizer]:
    model = net()
    optimizer = made(model)
    with Checkpointer(repo, model, optimizer, every=1, **options) as run:
        stepped(model, optimizer)
        run.after_step(0)
    return model, optimizer


def resumed(repo: Repository, made: Made, **options: Any) -> tuple[nn.ModuleDict, torch.optim.Optimizer]:
    model = net()
    optimizer = made(model)
    with Checkpointer(repo, model, optimizer, final=False, **options) as run:
        assert run.resume() == 1
    return model, optimizer


def by_name(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """The settings and the state of each parameter, as text that shows every bit."""
    torch.set_printoptions(threshold=10_000, precision=12)
    groups = {id(one): group for group in optimizer.param_groups for one in group["params"]}
    return {
        name: (
            str(optimizer.state.get(parameter)),
            {
                key: value
                for key, value in groups[id(parameter)].items()
                if key not in {"params", "param_names"}
            },
        )
        for name, parameter in model.named_parameters()
        if id(parameter) in groups
    }


def orders(model: nn.ModuleDict) -> dict[str, Any]:
    a, b, c = named = list(model.named_parameters())
    plain = [one for _, one in named]
    return {
        "plain": plain,
        "reversed": plain[::-1],
        "named": named,
        "named reversed": named[::-1],
        "groups": [{"params": [a[1], b[1]]}, {"params": [c[1]], "lr": 1e-3}],
        "groups swapped": [{"params": [c[1]], "lr": 1e-3}, {"params": [b[1], a[1]]}],
        "named groups": [{"params": [a, b]}, {"params": [c], "lr": 1e-3}],
        "named groups swapped": [{"params": [c], "lr": 1e-3}, {"params": [b, a]}],
        "other groups": [{"params": [a[1]]}, {"params": [b[1], c[1]], "lr": 1e-3}],
        "first": [a[1], b[1]],
    }


def adamw(order: str) -> Made:
    return lambda model: torch.optim.AdamW(orders(model)[order], lr=1e-2)


ALL = ["plain", "reversed", "named", "named reversed"]
GROUPED = ["groups", "groups swapped", "named groups", "named groups swapped"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        *((one, other) for one in ALL[:1] for other in ALL),
        *((one, other) for one in GROUPED[:1] for other in GROUPED),
        ("named reversed", "reversed"),
        ("named groups swapped", "named groups"),
    ],
)
def test_each_parameter_has_its_own_state_and_rate_in_any_order(
    repo: Repository, before: str, after: str, caplog: pytest.LogCaptureFixture
) -> None:
    expected = by_name(*committed(repo, adamw(before)))
    model, optimizer = resumed(repo, adamw(after))

    assert by_name(model, optimizer) == expected
    names = {id(one): name for name, one in model.named_parameters()}
    for group in optimizer.param_groups:
        assert group.get("param_names", []) in ([], [names[id(one)] for one in group["params"]])
    order, other = (one.removeprefix("named").strip() or "plain" for one in (before, after))
    assert ("matched by name" in caplog.text) == (order != other)


@pytest.mark.parametrize(
    ("before", "after", "there", "here"),
    [
        ("plain", "groups", "[a.weight, b.weight, c.weight]", "[a.weight, b.weight], [c.weight]"),
        ("groups", "other groups", "[a.weight, b.weight], [c.weight]", "[a.weight], [b.weight, c.weight]"),
        ("plain", "first", "[a.weight, b.weight, c.weight]", "[a.weight, b.weight]"),
        ("first", "plain", "[a.weight, b.weight]", "[a.weight, b.weight, c.weight]"),
    ],
)
def test_other_groups_are_refused_with_both_orders(
    repo: Repository, before: str, after: str, there: str, here: str
) -> None:
    committed(repo, adamw(before))
    with pytest.raises(UsageError) as error:
        resumed(repo, adamw(after))
    assert f"its parameters are {there} there and {here} here" in error.value.message


def test_an_optimizer_of_other_parameters_of_the_same_model_is_refused(repo: Repository) -> None:
    committed(repo, lambda model: torch.optim.AdamW([model["a"].weight]))
    with pytest.raises(UsageError, match=r"its parameters are \[a.weight\] there and \[b.weight\] here"):
        resumed(repo, lambda model: torch.optim.AdamW([model["b"].weight]))


def test_names_that_one_side_lacks_leave_doubt(repo: Repository) -> None:
    committed(repo, adamw("plain"))
    other = nn.Parameter(torch.zeros(6, 6))
    with pytest.raises(
        UsageError, match=r"\[a.weight, b.weight, c.weight\] there and \[a.weight, b.weight, None\]"
    ):
        resumed(repo, lambda model: torch.optim.AdamW([*list(model.parameters())[:2], other]))


@pytest.mark.parametrize("made", [torch.optim.LBFGS], ids=["a state of all parameters"])
def test_a_state_that_is_of_no_single_parameter_does_not_move(repo: Repository, made: Any) -> None:
    model = net()
    optimizer = made(model.parameters())
    with Checkpointer(repo, model, optimizer, every=1) as run:
        optimizer.step(lambda: sum(one.square().sum() for one in model.parameters()))
        run.after_step(0)
    resumed(repo, lambda model: made(model.parameters()))
    with pytest.raises(UsageError, match=r"\[c.weight, b.weight, a.weight\] here"):
        resumed(repo, lambda model: made(list(model.parameters())[::-1]))


def without_names(repo: Repository) -> None:
    """Commit the newest state as it was before names were."""
    state = repo.checkout()
    assert state.pop("optimizer_parameters")
    repo.commit(state, step=0)


def test_a_commit_without_names_goes_by_position(repo: Repository) -> None:
    expected = by_name(*committed(repo, adamw("groups")))
    without_names(repo)
    assert by_name(*resumed(repo, adamw("groups"))) == expected
    with pytest.raises(UsageError, match=r"its groups have \[2, 1\] parameters there and \[1, 2\] here"):
        resumed(repo, adamw("groups swapped"))


@pytest.mark.parametrize(
    "wrong",
    [
        5,
        {"names": 5, "strides": []},
        {"names": [["model.a.weight"]], "strides": []},
        {"names": [[{}, {}, {}]]},
        {"names": [["x", "y", "z"]], "strides": [[["state", 9], [1]]]},
        {"names": [["x", "y", "z"]], "strides": [[["state", 0, "exp_avg"], [0, 0]]]},
        {"names": [["x", "y", "z"]], "strides": [[["state", 0, "exp_avg"], [1 << 40, 1]]]},
        {"names": [["x", "y", "z"]], "strides": [[[], []]]},
        {"names": [["x", ["y"], 5]], "strides": []},
        {"names": [["x", "y", "z"]], "strides": [[["state", 0, "exp_avg", 0], [1]]]},
        {"names": [["x", "y", "z"]], "strides": [[["state", 0, "exp_avg", [0]], [1]]]},
        {"names": [["x", "y", "z"]], "strides": [[["state", 0, "exp_avg"], [6, 1]]]},
        {"names": [["x", "y", "z"]], "strides": [[["state", 0, "exp_avg"], [1, 6]]] * 2},
        torch.ones(3),
        0,
    ],
    ids=str,
)
def test_what_a_store_says_of_names_is_not_trusted(repo: Repository, wrong: Any) -> None:
    committed(repo, adamw("plain"))
    state = repo.checkout()
    for said in ({"optimizer": wrong}, [wrong], *(() if isinstance(wrong, dict) else (wrong,))):
        repo.commit({**state, "optimizer_parameters": said}, step=0)
        with pytest.raises(UsageError, match="the names and strides beside its state are of another"):
            resumed(repo, adamw("plain"))


SHORT = [torch.ones(6, 6)]


@pytest.mark.parametrize(
    "wrong", [{"optimizer": SHORT}, {"optimizer": {"a": 1}}, {"optimizer": 5}, SHORT, "text"]
)
@pytest.mark.parametrize("order", ["plain", "reversed"])
def test_what_a_store_says_of_gradients_is_not_trusted(repo: Repository, wrong: Any, order: str) -> None:
    committed(repo, adamw("plain"))
    repo.commit({**repo.checkout(), "optimizer_gradients": wrong}, step=0)
    with pytest.raises(UsageError, match="does not fit the gradients of the optimizer"):
        resumed(repo, adamw(order))


@pytest.mark.parametrize(
    "made",
    [
        lambda of: schedules.StepLR(of, 1, 0.5),
        lambda of: schedules.CyclicLR(of, [1e-4, 1e-3], [1e-2, 1e-1], cycle_momentum=False),
        lambda of: schedules.SequentialLR(of, [schedules.ConstantLR(of, 0.1), schedules.StepLR(of, 1)], [1]),
        lambda of: schedules.CosineAnnealingLR(of, 10),
    ],
    ids=["steps", "cycles", "in a row", "cosine"],
)
def test_a_schedule_of_rates_by_group_moves_with_the_groups(repo: Repository, made: Any) -> None:
    rates = {}
    for order in ("groups", "groups swapped"):
        model = net()
        optimizer = adamw(order)(model)
        scheduler = made(optimizer)
        with Checkpointer(repo, model, optimizer, scheduler, every=1, final=False) as run:
            start = run.resume()
            for step in range(2):
                stepped(model, optimizer)
                scheduler.step()
                if not start and step == 0:
                    run.after_step(0)
                elif not start or step == 0:
                    found = by_name(model, optimizer)
                    rates[order] = {name: group["lr"] for name, (_, group) in found.items()}
    assert rates["groups"] == rates["groups swapped"]


class Counter:
    """A schedule of which nothing is known."""

    def state_dict(self) -> dict[str, Any]:
        return {"rates": [1, 2]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass


def test_groups_do_not_move_below_a_schedule_that_is_not_known(repo: Repository) -> None:
    committed(repo, adamw("groups"), scheduler=Counter())
    resumed(repo, adamw("named groups"), scheduler=Counter())
    with pytest.raises(UsageError, match=r"\[c.weight\], \[b.weight, a.weight\] here"):
        resumed(repo, adamw("groups swapped"), scheduler=Counter())


def test_gradients_between_backward_and_step_move_along(repo: Repository) -> None:
    model = net()
    optimizer = adamw("plain")(model)
    with Checkpointer(repo, model, optimizer, every=1) as run:
        stepped(model, optimizer)
        for name, parameter in model.named_parameters():
            parameter.grad = torch.full_like(parameter, float(ord(name[0])))
        run.after_step(0)
    again, _ = resumed(repo, adamw("reversed"))
    for name, parameter in again.named_parameters():
        assert parameter.grad is not None
        assert parameter.grad.eq(ord(name[0])).all()


def test_several_optimizers_and_models_each_have_their_names(repo: Repository) -> None:
    def parts(order: int) -> tuple[nn.Module, nn.Module, Any, Any]:
        one, other = net(), net()
        made = [torch.optim.AdamW(list(model.parameters())[::order], lr=1e-2) for model in (one, other)]
        return one, other, *made

    expected = []
    for start, order in ((0, 1), (1, -1)):
        one, other, optimizer, second = parts(order)
        extra = {"other": other, "second": second}
        with Checkpointer(repo, one, optimizer, extra=extra, every=1, final=False) as run:
            assert run.resume() == start
            if start == 0:
                stepped(one, optimizer)
                stepped(other, second, range(5))
                run.after_step(0)
        expected.append((by_name(one, optimizer), by_name(other, second)))
    assert expected[0] == expected[1]
    said = repo.checkout()["optimizer_parameters"]
    assert said["second" if "second" in said else "extra.second"]["names"][0][0] == "extra.other.a.weight"


class Tied(nn.Module):
    def __init__(self, *, reverse: bool = False) -> None:
        super().__init__()
        one, other = nn.Linear(6, 6, bias=False), nn.Linear(6, 6, bias=False)
        last = nn.Linear(6, 6, bias=False)
        last.weight = one.weight
        for name, module in sorted({"a": one, "b": other, "c": last}.items(), reverse=reverse):
            self.add_module(name, module)


def test_tied_parameters_have_any_of_their_names(repo: Repository) -> None:
    found = []
    for start, reverse in ((0, False), (1, True)):
        model = Tied(reverse=reverse)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        with Checkpointer(repo, model, optimizer, every=1, final=False) as run:
            assert run.resume() == start
            if start == 0:
                stepped(model, optimizer)
                run.after_step(0)
        found.append([str(optimizer.state[one.weight]) for one in (model.a, model.b)])
    assert found[0] == found[1]


def test_a_compiled_model_has_the_names_of_its_own(repo: Repository) -> None:
    model = net()
    model["a"] = torch.compile(model["a"], backend="eager")  # type: ignore[assignment]  # a module around one
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    with Checkpointer(repo, model, optimizer, every=1) as run:
        stepped(model, optimizer)
        run.after_step(0)
    assert repo.checkout()["optimizer_parameters"]["optimizer"]["names"] == [
        ["model.a.weight", "model.b.weight", "model.c.weight"]
    ]


def frozen(model: nn.ModuleDict) -> torch.optim.Optimizer:
    model["c"].requires_grad_(False)
    return adamw("first")(model)


@pytest.mark.parametrize("made", [torch.optim.AdamW, torch.optim.SGD])
def test_a_group_that_was_added_is_added_again_and_trained(
    repo: Repository, made: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def first(model: nn.ModuleDict) -> torch.optim.Optimizer:
        model["c"].requires_grad_(False)
        return made([one for one in model.parameters() if one.requires_grad], lr=1e-2)

    def unfrozen(model: nn.ModuleDict, optimizer: torch.optim.Optimizer) -> None:
        model["c"].requires_grad_(True)
        optimizer.add_param_group({"params": model["c"].parameters(), "lr": 1e-3})

    model = net()
    optimizer = first(model)
    scheduler = schedules.StepLR(optimizer, 1, 0.9)
    with Checkpointer(repo, model, optimizer, scheduler, every=1) as run:
        stepped(model, optimizer, range(1))
        unfrozen(model, optimizer)
        stepped(model, optimizer, range(1, 2))
        scheduler.step()
        run.after_step(0)
    other = net()
    again = first(other)
    other_scheduler = schedules.StepLR(again, 1, 0.9)
    with Checkpointer(repo, other, again, other_scheduler, final=False) as run:
        assert run.resume() == 1
    assert "gets the group that was added to it in that run: [c.weight]" in caplog.text
    for one, of, schedule in ((model, optimizer, scheduler), (other, again, other_scheduler)):
        stepped(one, of, range(2, 4))
        schedule.step()
    assert by_name(other, again) == by_name(model, optimizer)
    assert all(map(torch.equal, model.state_dict().values(), other.state_dict().values()))


def test_an_added_group_goes_again_where_a_part_refuses(repo: Repository) -> None:
    committed(repo, adamw("groups"), extra={"g": torch.Generator()})
    model = net()
    optimizer = frozen(model)
    extra = {"g": schedules.StepLR(optimizer, 1)}
    with Checkpointer(repo, model, optimizer, extra=extra, final=False) as run, pytest.raises(UsageError):
        run.resume()
    assert len(optimizer.param_groups) == 1
    assert not model["c"].weight.requires_grad


class Odd(torch.optim.Optimizer):
    """Keeps what torch's loader takes for numbers of the parameter's type, or cannot take at all."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {"lr": 0.1})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]  # as torch has it
        assert closure is None
        for group in self.param_groups:
            for one in group["params"]:
                state = self.state[one]
                if not state:
                    state |= {
                        "step": torch.zeros((), dtype=torch.float64),
                        "sum": torch.full(one.shape, 1 / 3, dtype=torch.float64),
                        "codes": torch.arange(36, dtype=torch.uint8).view(6, 6),
                        "mask": torch.ones(6, dtype=torch.bool),
                        "half": torch.full((6,), 1 / 3, dtype=torch.float16),
                        "nan": torch.tensor([float("nan")], dtype=torch.float64),
                        "called": "a name",
                        "pair": (torch.ones(2, dtype=torch.int32), "text"),
                        "list": [torch.full((2,), 1 / 3), None, 5, {"deep": torch.full((2,), 1 / 7)}],
                        "Q": torch.linalg.qr(torch.rand(6, 6, dtype=torch.float64))[0],
                    }
                state["step"] += 1
                state["codes"][state["mask"]] += 1
                state["sum"] += one.grad.double()
                one.sub_((state["sum"] @ state["Q"]).to(one), alpha=group["lr"])


def flat(node: Any, path: str = "") -> dict[str, Any]:
    if isinstance(node, dict):
        return {k: v for key, value in node.items() for k, v in flat(value, f"{path}.{key}").items()}
    if isinstance(node, list | tuple):
        return {k: v for key, value in enumerate(node) for k, v in flat(value, f"{path}.{key}").items()}
    if not isinstance(node, torch.Tensor):
        return {path: node}
    bits = node.detach().contiguous().reshape(-1).view(torch.uint8).tolist()
    return {path: (node.dtype, node.shape, node.stride(), bits)}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_a_state_has_the_types_strides_and_bits_that_were_committed(
    repo: Repository, dtype: torch.dtype
) -> None:
    found = []
    for start in range(2):
        model = net().to(dtype)
        optimizer = Odd(model.parameters())
        with Checkpointer(repo, model, optimizer, every=1, final=False) as run:
            assert run.resume() == start
            if start == 0:
                stepped(model, optimizer)
                run.after_step(0)
        found.append(flat(optimizer.state_dict()))
        stepped(model, optimizer)
        found.append(flat(optimizer.state_dict()) | flat(dict(model.state_dict())))
    assert found[0] == found[2]
    assert found[1] == found[3]


class Wrapper:
    """Has optimizers, and is none."""

    def __init__(self, *optimizers: torch.optim.Optimizer) -> None:
        self.optimizers = list(optimizers)

    def state_dict(self) -> dict[str, Any]:
        return {"inner": [one.state_dict() for one in self.optimizers], "k": 5}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for one, saved in zip(self.optimizers, state["inner"], strict=True):
            one.load_state_dict(saved)


class Delegating(torch.optim.Optimizer):
    """An optimizer by its class alone, as accelerate makes one."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizer = optimizer

    @property
    def param_groups(self) -> Any:
        return self.optimizer.param_groups

    @property
    def state(self) -> Any:
        return self.optimizer.state

    def state_dict(self) -> dict[str, Any]:
        return self.optimizer.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.optimizer.load_state_dict(state)


@pytest.mark.parametrize(
    "wrapped",
    [
        lambda model: Wrapper(Odd(model.parameters())),
        lambda model: Wrapper(
            Odd(model["a"].parameters()), Odd([*model["b"].parameters(), model["c"].weight])
        ),
        lambda model: Delegating(Odd(model.parameters())),
    ],
    ids=["one", "two", "by its class"],
)
def test_what_is_wrapped_is_put_back_as_well(repo: Repository, wrapped: Any) -> None:
    found = []
    for start in range(2):
        model = net().bfloat16()
        part = wrapped(model)
        inner = getattr(part, "optimizers", None) or [part.optimizer]
        with Checkpointer(repo, model, part, every=1, final=False) as run:
            assert run.resume() == start
            if start == 0:
                for one in inner:
                    stepped(model, one)
                run.after_step(0)
        found.append([flat(one.state_dict()) for one in inner])
        assert found[-1][0][".state.0.sum"][0] is torch.float64
        assert found[-1][0][".state.0.Q"][2] == (1, 6)
    assert found[0] == found[1]


class Rounding(Odd):
    """Gives other numbers than it was given."""

    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict()
        add = 0 if self.loaded else 1
        return state | {
            "state": {key: one | {"sum": one["sum"] + add} for key, one in state["state"].items()}
        }

    loaded = False

    def load_state_dict(self, state: Any) -> None:
        self.loaded = True
        super().load_state_dict(state)


def test_what_cannot_be_put_back_is_refused(repo: Repository) -> None:
    model = net()
    optimizer = Rounding(model.parameters())
    with Checkpointer(repo, model, optimizer, every=1) as run:
        stepped(model, optimizer)
        run.after_step(0)
    with pytest.raises(UsageError, match=r"its load_state_dict makes of 'state\.0\.sum'"):
        resumed(repo, lambda model: Rounding(model.parameters()))


def test_moments_of_weights_in_another_memory_format_keep_theirs(repo: Repository) -> None:
    found = []
    for start in range(2):
        model = nn.Conv2d(4, 8, 3).to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's
        optimizer = torch.optim.AdamW(model.parameters(), fused=True)
        with Checkpointer(repo, model, optimizer, every=1, final=False) as run:
            assert run.resume() == start
            if start == 0:
                stepped(model, optimizer)
                run.after_step(0)
        stepped(model, optimizer)
        moment = optimizer.state[model.weight]["exp_avg"]
        assert moment.is_contiguous(memory_format=torch.channels_last)
        found.append(flat(optimizer.state_dict()))
    assert found[0] == found[1]


def test_nothing_is_said_where_all_is_as_it_was(repo: Repository, caplog: pytest.LogCaptureFixture) -> None:
    committed(repo, adamw("groups"), loader=Counter())
    caplog.clear()
    resumed(repo, adamw("groups"), loader=Counter())
    assert not [record for record in caplog.records if record.levelno > logging.INFO]


NEW_SCHEDULES: dict[str, Callable[[Any], Any]] = {
    "linear": lambda of: schedules.LinearLR(of, 0.1, total_iters=6),
    "one cycle": lambda of: schedules.OneCycleLR(of, max_lr=0.1, total_steps=20),
    "lambda": lambda of: schedules.LambdaLR(of, lambda epoch: min(1, (epoch + 1) / 10)),
    "steps": lambda of: schedules.StepLR(of, 3),
    "cosine": lambda of: schedules.CosineAnnealingLR(of, 12),
    "in a row": lambda of: schedules.SequentialLR(
        of, [schedules.LinearLR(of, 0.1, total_iters=3), schedules.CosineAnnealingLR(of, 7)], [3]
    ),
    "cycles": lambda of: schedules.CyclicLR(of, 1e-3, 1e-2, step_size_up=4),
}


def followed(model: nn.Module, optimizer: torch.optim.Optimizer, scheduler: Any) -> list[Any]:
    """What the first steps of a schedule set."""
    found = []
    for step in range(8):
        cycled = ("lr", "momentum", "betas")
        found.append([{name: group.get(name) for name in cycled} for group in optimizer.param_groups])
        stepped(model, optimizer, range(step, step + 1))
        scheduler.step()
    return found


@pytest.mark.parametrize("kind", NEW_SCHEDULES)
@pytest.mark.parametrize("before", [None, "steps", "one cycle"])
def test_a_schedule_that_is_new_starts_from_the_beginning(
    repo: Repository, kind: str, before: str | None
) -> None:
    def sgd(model: nn.ModuleDict) -> torch.optim.Optimizer:
        return torch.optim.SGD(orders(model)["groups"], lr=1e-2, momentum=0.9)

    made = NEW_SCHEDULES[kind]
    model = net()
    optimizer = sgd(model)
    scheduler = NEW_SCHEDULES[before](optimizer) if before else None
    with Checkpointer(repo, model, optimizer, scheduler, every=1) as run:
        for step in range(4):
            stepped(model, optimizer)
            if scheduler:
                scheduler.step()
            run.after_step(step)
    found = []
    for is_resumed in (False, True):
        model = net()
        optimizer = sgd(model)
        new = made(optimizer)
        given: dict[str, Any] = {"extra": {"new": new}} if before else {"scheduler": new}
        with Checkpointer(repo, model, optimizer, final=False, **given) as run:
            assert not is_resumed or run.resume() == 4
            found.append(followed(model, optimizer, new))
    if before == "one cycle" and kind not in {"cycles", "one cycle"}:  # its momentum is the commit's
        found = [[[group["lr"] for group in groups] for groups in one] for one in found]
    assert found[0] == found[1]


def test_a_schedule_that_is_new_beside_one_that_continues_leaves_it_its_rates(repo: Repository) -> None:
    found = []
    for is_new in (False, True):
        model = net()
        optimizer = adamw("plain")(model)
        scheduler = schedules.StepLR(optimizer, 1, 0.5)
        extra = {"swa": torch.optim.swa_utils.SWALR(optimizer, swa_lr=1e-4)} if is_new else {}
        with Checkpointer(repo, model, optimizer, scheduler, extra=extra, every=1, final=False) as run:
            run.resume()
            if not is_new:
                stepped(model, optimizer)
                scheduler.step()
                run.after_step(0)
        found.append(optimizer.param_groups[0]["lr"])
    assert found == [5e-3, 5e-3]
    assert optimizer.param_groups[0]["swa_lr"] == 1e-4


def test_an_optimizer_that_adds_a_setting_is_refused_by_the_names_of_both(repo: Repository) -> None:
    committed(repo, lambda model: torch.optim.RAdam(model.parameters()))
    with pytest.raises(UsageError, match=r"optimizer: it was committed from RAdam; here is NAdam"):
        resumed(repo, lambda model: torch.optim.NAdam(model.parameters()))


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (
            torch.optim.Adam,
            torch.optim.AdamW,
            "it was committed from Adam; here is AdamW; {}weight_decay 0.01 -> 0",
        ),
        (
            torch.optim.AdamW,
            torch.optim.Adam,
            (
                "it was committed from AdamW; here is Adam; "
                "{}decoupled_weight_decay False -> True, weight_decay 0 -> 0.01"
            ),
        ),
        (
            lambda given: torch.optim.SGD(given, lr=0.1),
            lambda given: torch.optim.SGD(given, lr=0.1, momentum=0.9),
            "{}momentum 0.9 -> 0",
        ),
        (torch.optim.AdamW, torch.optim.AdamW, None),
    ],
)
def test_settings_that_the_commit_replaces_are_told(
    repo: Repository, before: Any, after: Any, said: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    committed(repo, lambda model: before(model.parameters()))
    resumed(repo, lambda model: after(model.parameters()))
    told = [text for text in caplog.messages if ", optimizer: " in text]
    start = f"commit {next(iter(repo.log())).short}, optimizer: "
    replaced = "the commit's settings replace the script's: "
    assert told == ([start + said.format(replaced)] if said else [])
