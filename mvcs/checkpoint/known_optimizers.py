"""What each tensor in the state of an optimizer is: the optimizers that are known, and how each is told."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum


class Moment(StrEnum):
    """What a tensor in an optimizer's state is to its parameter.

    FIRST is a mean of gradients beside a second moment. SECOND is never negative and divides an update, such
    as a mean of squares. MOMENTUM is a mean of gradients or updates that no second moment belongs to. WEIGHT
    moves as the parameter does. ITERATE is what steps are taken from where weights are its average (Defazio
    et al. 2024, "The road less scheduled"). EXACT is anything else, and is kept bit for bit.
    """

    FIRST = "first"
    SECOND = "second"
    MOMENTUM = "momentum"
    WEIGHT = "weight"
    ITERATE = "iterate"
    EXACT = "exact"


_NUMBERED = re.compile(r"_[0-9]+$")


@dataclass(frozen=True)
class KnownOptimizer:
    """One optimizer, told by the names in its state and in the settings of its groups.

    Attributes:
        name: what a commit calls it.
        tensors: what each tensor of a parameter's state is: it has some of these and no others. `_#` at the
            end of a name stands for a number.
        marks: of those, the ones that tell: a state has one of them at least.
        has: settings that its groups have.
        lacks: settings that they do not have, where another's have `has` as well.
    """

    name: str
    tensors: Mapping[str, Moment]
    marks: frozenset[str]
    has: frozenset[str]
    lacks: frozenset[str]

    @property
    def rounds(self) -> bool:
        """Whether anything of its state may be kept less than exactly."""
        return set(self.tensors.values()) != {Moment.EXACT}

    def moment(self, name: str) -> Moment:
        """Return what a tensor is."""
        return self.tensors.get(_numbered(name), Moment.EXACT)

    def fits(self, names: Collection[str], settings: Collection[str]) -> bool:
        """Tell whether a parameter's state, and the settings of its group, are those of this one."""
        found, given = {_numbered(name) for name in names}, frozenset(settings)
        named = found <= self.tensors.keys() and not found.isdisjoint(self.marks)
        return named and self.has <= given and not self.lacks & given


def _numbered(name: str) -> str:
    return _NUMBERED.sub("_#", name)


def _known(name: str, tensors: str, has: str, lacks: str = "", marks: str = "") -> KnownOptimizer:
    """Return a row: tensors are written as `name:moment`, `marks` are all of them where none are named."""
    pairs = (one.partition(":") for one in tensors.split())
    moments = {found: Moment(moment or Moment.EXACT) for found, _, moment in pairs}
    told = frozenset(marks.split()) or frozenset(moments)
    return KnownOptimizer(name, moments, told, frozenset(has.split()), frozenset(lacks.split()))


_ADAM = "exp_avg:first exp_avg_sq:second max_exp_avg_sq:second"
_OTHERS = "momentum_decay alpha rho lr_decay"

# The first that fits counts. Why each tensor is what it is stands in docs/training.md, "Optimizers".
KNOWN_OPTIMIZERS = (
    _known("Adam", _ADAM, "lr betas eps weight_decay amsgrad", _OTHERS, "exp_avg_sq"),
    _known("NAdam", _ADAM, "lr betas eps weight_decay momentum_decay", marks="exp_avg_sq"),
    _known(
        "RAdam",
        _ADAM,
        "lr betas eps weight_decay decoupled_weight_decay differentiable",
        f"{_OTHERS} amsgrad",
        "exp_avg_sq",
    ),
    _known("SparseAdam", _ADAM, "lr betas eps maximize", f"{_OTHERS} weight_decay amsgrad", "exp_avg_sq"),
    _known("Adamax", "exp_avg:momentum exp_inf:second", "lr betas eps weight_decay", marks="exp_inf"),
    _known("Adagrad", "sum:second", "lr lr_decay eps initial_accumulator_value"),
    _known("Adadelta", "square_avg:second acc_delta:second", "lr rho eps"),
    _known(
        "RMSprop",
        "square_avg:second momentum_buffer:momentum",
        "lr alpha eps momentum centered",
        marks="square_avg",
    ),
    # Its variance is the square's mean less the mean's square, which rounding could make negative.
    _known(
        "centered RMSprop",
        "square_avg grad_avg momentum_buffer:momentum",
        "lr alpha eps momentum centered",
        marks="grad_avg",
    ),
    _known("Muon", "momentum_buffer:momentum", "lr momentum nesterov weight_decay ns_steps"),
    _known("SGD", "momentum_buffer:momentum", "lr momentum dampening nesterov weight_decay", _OTHERS),
    _known("Lion", "exp_avg:momentum", "lr betas weight_decay", "eps amsgrad"),
    _known(
        "schedule-free", "z:iterate exp_avg_sq:second", "lr weight_sum weight_lr_power train_mode", marks="z"
    ),
    _known("ASGD", "ax:weight", "lr lambd alpha t0"),
    # What follows is small, or nobody knows that rounding it is harmless.
    _known("Rprop", "prev step_size", "lr etas step_sizes"),
    _known("LBFGS", "d prev_flat_grad old_dirs old_stps ro al", "lr history_size tolerance_grad max_eval"),
    _known("Adafactor", "row_var col_var variance", "lr beta2_decay eps d"),
    _known(
        "Adafactor",
        "exp_avg_sq_row exp_avg_sq_col exp_avg_sq exp_avg",
        "lr decay_rate clip_threshold scale_parameter",
        marks="exp_avg_sq_row exp_avg_sq",
    ),
    _known("SOAP", "exp_avg exp_avg_sq GG Q", "lr betas precondition_frequency"),
    _known(
        "Shampoo",
        "precond_# inv_precond_# pre_cond_# inv_pre_cond_# momentum_buffer",
        "lr momentum weight_decay",
        marks="precond_# pre_cond_#",
    ),
    _known("bitsandbytes", "__bnb_optimizer_quant_state__", "lr weight_decay"),
)


def known_optimizer(names: Collection[str], settings: Collection[str]) -> KnownOptimizer | None:
    """Return the optimizer that a parameter's state belongs to; None where it is not known.

    Args:
        names: in its state, of what tensors with dimensions stand under.
        settings: names of the settings of its group.
    """
    return next((one for one in KNOWN_OPTIMIZERS if one.fits(names, settings)), None)


def momentum_names(told: str) -> frozenset[str]:
    """Return what an optimizer that keeps momentum and nothing else calls it; nothing for others.

    Args:
        told: what a commit tells of the optimizer: its name, and settings behind a blank.
    """
    name = told.partition(" ")[0]
    known = next((one for one in KNOWN_OPTIMIZERS if one.name == name), None)
    alone = known is not None and set(known.tensors.values()) == {Moment.MOMENTUM}
    return frozenset(known.tensors) if known is not None and alone else frozenset()
