"""Kinds of options that several commands share."""

import math
from collections.abc import Callable, Sequence
from typing import Any, TypedDict, TypeVar

import click

Function = TypeVar("Function", bound=Callable[..., Any])
_LONGEST_NAME = 200
_LAST_STEP = (1 << 63) - 1


class Finite(click.FloatRange):
    """A number in a range; nan and infinities are in none."""

    def convert(
        self,
        value: Any,  # noqa: ANN401  # click's form
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> float:
        """Read the fraction."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{number} is not in any range", param, ctx)
        return number


def step(context: click.Context, parameter: click.Parameter, value: int | None) -> int | None:
    """Check a step number; its limit is the format's and too large to be shown in help."""
    if value is not None and not 0 <= value <= _LAST_STEP:
        raise click.BadParameter(f"{value} is not a step number", context, parameter)
    return value


def metric_option(function: Function) -> Function:
    """Add `--metric NAME=NUMBER`, handed over as a dict `metrics`; nan, inf and -inf are numbers."""
    return click.option(
        "--metric",
        "metrics",
        metavar="NAME=NUMBER",
        multiple=True,
        callback=_metrics,
        help="A measurement, such as val_loss=2.1; repeat for more.",
    )(function)


def _metrics(context: click.Context, parameter: click.Parameter, values: Sequence[str]) -> dict[str, float]:
    found: dict[str, float] = {}
    for value in values:
        # At the last equals sign: a name may hold one, a number may not.
        name, _, text = (part.strip() for part in value.rpartition("="))
        if not name or len(name) > _LONGEST_NAME:
            raise click.BadParameter(f"'{value}' is not of the form NAME=NUMBER", context, parameter)
        if name in found:
            raise click.BadParameter(f"'{name}' is given twice", context, parameter)
        found[name] = _number(text, name, context, parameter)
    return found


def _number(text: str, name: str, context: click.Context, parameter: click.Parameter) -> float:
    try:
        return float(text)
    except ValueError:
        message = f"'{text}' is not a number, for metric '{name}'"
        raise click.BadParameter(message, context, parameter) from None


class QuantizerOptions(TypedDict):
    """What the options of a quantizer say."""

    bins: int | None
    prune: float | None
    protect: float | None
    sigma: float | None


def quantizer_options(function: Function) -> Function:
    """Add the options that say how weights are quantized, handed over as `QuantizerOptions`."""
    options = [
        click.option(
            "--bins",
            type=click.IntRange(2, 256),
            help="Quantize weights to N values each; without it all is exact.",
        ),
        click.option(
            "--prune",
            type=Finite(0, 1, max_open=True),
            help="With --bins: the share of smallest weights that becomes zero (default 0).",
        ),
        click.option(
            "--protect",
            type=Finite(0, 1, max_open=True),
            help="With --bins: the share of largest weights kept exactly (default 0).",
        ),
        click.option(
            "--sigma",
            type=Finite(0, 1),
            help="With --bins: how much k-means weighs frequency against magnitude.",
        ),
    ]
    for option in reversed(options):
        function = option(function)
    return function


def quantizer_settings(options: QuantizerOptions) -> dict[str, Any]:
    """Return the keywords of `Repository.commit_files` that were given; none for an exact commit.

    Raises:
        click.UsageError: an option that means nothing without --bins.
    """
    given = {
        "bins": options["bins"],
        "prune": options["prune"],
        "protect": options["protect"],
        "sigma": options["sigma"],
    }
    found = {name: value for name, value in given.items() if value is not None}
    if found and "bins" not in found:
        raise click.UsageError(f"--{next(iter(found))} needs --bins: without a quantizer a commit is exact")
    return found


def storage_option(function: Function) -> Function:
    """Add `--option KEY=VALUE`, handed over as a dict `options`, for what a backend needs to know."""
    return click.option(
        "--option",
        "options",
        metavar="KEY=VALUE",
        multiple=True,
        callback=_options,
        help="An option of the store, such as endpoint_url=http://host:9000; repeat for more.",
    )(function)


def _options(context: click.Context, parameter: click.Parameter, values: Sequence[str]) -> dict[str, object]:
    found: dict[str, object] = {}
    for value in values:
        key, sign, text = value.partition("=")
        if not key or not sign:
            raise click.BadParameter(f"'{value}' is not of the form KEY=VALUE", context, parameter)
        found[key] = _value(text)
    return found


def _value(text: str) -> object:
    """Return true, false and whole numbers as such: backends are picky about types."""
    if text in ("true", "false"):
        return text == "true"
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else text
