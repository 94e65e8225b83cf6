"""Sensitivity of weights: averages of a run's gradients (Inshrinkerator, sections 4.1 and 4.5)."""

import logging
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
import torch
from numpy.typing import NDArray

from mvcs.errors import UsageError
from mvcs.train.evaluation.call_evaluate import described
from mvcs.train.state.host_copies import is_plain

_logger = logging.getLogger("mvcs.train")

NEWEST: Final = 0.9
WINDOW: Final = 50


@dataclass
class _Average:
    """The average of one parameter's gradients.

    Attributes:
        parameter: whose.
        mean: float32, in host memory.
        copied: where its gradients are copied to from a device, pinned; None for parameters in host memory.
        waiting: whether a copy is on its way or has not been taken in.
    """

    parameter: weakref.ref[torch.Tensor]
    mean: torch.Tensor
    copied: torch.Tensor | None = None
    waiting: bool = False

    @classmethod
    def of(cls, parameter: torch.Tensor) -> "_Average":
        return cls(weakref.ref(parameter), torch.zeros(parameter.shape, dtype=torch.float32))

    def fits(self, parameter: torch.Tensor) -> bool:
        return self.parameter() is parameter and self.mean.shape == parameter.shape

    def take(self, gradient: torch.Tensor | None, scale: float) -> None:
        """Take in a gradient in host memory; none is one of zeros."""
        self.mean.mul_(1 - NEWEST)
        if gradient is not None:
            self.mean.add_(gradient.to(torch.float32), alpha=NEWEST * scale)


@dataclass
class _Devices:
    """Copies from devices that are on their way.

    Attributes:
        streams: one beside the training's for each device.
        begun: the devices that something is being copied from.
        done: recorded behind the copies of a step, on each device.
        scale, found_inf: what a scaler said of that step, in pinned memory.
    """

    streams: dict[torch.device, torch.cuda.Stream] = field(default_factory=dict)
    begun: set[torch.device] = field(default_factory=set)
    done: dict[torch.device, torch.cuda.Event] = field(default_factory=dict)
    scale: torch.Tensor | None = None
    found_inf: torch.Tensor | None = None


class Sensitivity:
    """Averages the gradients that an optimizer is about to use, and changes nothing of the training.

    Gradients are read once for each step of the optimizer, as it begins: accumulated over the pieces of a
    batch, over all uses of a shared parameter, and clipped, as the step uses them. A step with a closure
    computes its gradients itself, so they are read as it ends. Where a `GradScaler` leaves scaled gradients
    to the optimizer (fused ones), they are divided by the scale, and steps with infinities do not count.
    Others get unscaled gradients and no step where there were infinities: no scaler has to be known here.
    A parameter without a gradient in this step counts as one with zeros, once it has had one.

    Averages lie in host memory, float32, beside the weights. From CUDA devices gradients are copied to pinned
    memory on a stream of their own while the optimizer steps, and taken in at the next step.

    Raises:
        UsageError: the window holds no step.
    """

    def __init__(
        self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, window: int = WINDOW
    ) -> None:
        """Listen to the optimizer's steps until `close`.

        Args:
            model: names parameters.
            optimizer: whose steps count.
            window: how many steps before an expected commit are averaged.
        """
        if window < 1:
            raise UsageError(f"a window cannot be {window}", hint="average over 1 step or more")
        self._model, self._optimizer, self._window = model, optimizer, window
        self._averages: dict[int, _Average] = {}
        self._devices = _Devices()
        self._left_out = 0
        self._handles = (
            optimizer.register_step_pre_hook(self._before_step),
            optimizer.register_step_post_hook(self._after_step),
        )

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Listen no longer."""
        self.close()

    def expect(self, steps: int) -> None:
        """Begin anew, for a commit after so many steps: only the last of them, the window, are averaged.

        Without it all steps are, which differs by what the first weigh: 0.1 to the power of the window.
        """
        self._take_in()
        self._averages.clear()
        self._left_out = max(0, steps - self._window)

    def importance(self) -> Mapping[str, NDArray[np.float32]]:
        """Return |average * weight| of every parameter that has had a gradient, by its names in the model.

        Shared parameters have the same array under each of their names. Arrays are float32, of the weights'
        shapes, and nothing changes them later.
        """
        self._take_in()
        found: dict[int, NDArray[np.float32]] = {}
        scores = {}
        for name, parameter in self._model.named_parameters(remove_duplicate=False):
            average = self._averages.get(id(parameter))
            if average is None or not average.fits(parameter):
                continue
            if id(parameter) not in found:
                weights = parameter.detach().to("cpu", torch.float32)
                found[id(parameter)] = (average.mean * weights).abs_().numpy()
            scores[name] = found[id(parameter)]
        return scores

    def close(self) -> None:
        """Listen no longer, and wait for copies on their way."""
        for handle in self._handles:
            handle.remove()
        with self._costing_scores():
            self._take_in()

    def _before_step(self, _optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:  # noqa: ANN401 - torch's
        if self._left_out:
            return
        if not _has_closure(args, kwargs):
            with self._costing_scores():
                self._read()

    def _after_step(self, _optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:  # noqa: ANN401 - torch's
        if self._left_out:
            self._left_out -= 1
        elif _has_closure(args, kwargs):
            with self._costing_scores():
                self._read()
        for device, event in self._devices.done.items():
            # What follows a step may write gradients: zero_grad, the next backward pass.
            torch.cuda.current_stream(device).wait_event(event)

    @contextmanager
    def _costing_scores(self) -> Iterator[None]:
        """Let an error, such as of a device without memory, cost the averages and not the training's step."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - devices raise errors of many kinds
            self._averages.clear()
            self._devices = _Devices()
            _logger.warning("gradients are averaged again, since %s", described(error))

    @torch.no_grad()
    def _read(self) -> None:
        self._take_in()
        scale, infinite = (getattr(self._optimizer, name, None) for name in ("grad_scale", "found_inf"))
        self._devices.scale, self._devices.found_inf = _on_host(scale), _on_host(infinite)
        for parameter in self._parameters():
            gradient = parameter.grad
            if gradient is not None and (gradient.is_complex() or not is_plain(gradient)):
                continue
            average = self._averages.get(id(parameter))
            if average is None or not average.fits(parameter):
                if gradient is None:
                    continue
                average = self._averages[id(parameter)] = _Average.of(parameter)
            self._read_one(average, gradient, fused=scale is not None)
        self._end(fused=scale is not None)

    def _read_one(self, average: _Average, gradient: torch.Tensor | None, *, fused: bool) -> None:
        if gradient is None or gradient.device.type != "cuda":
            if not self._infinite():
                average.take(gradient, self._factor())
            return
        if average.copied is None or average.copied.dtype != gradient.dtype:
            average.copied = torch.empty(gradient.shape, dtype=gradient.dtype, pin_memory=True)
        stream = self._begin(gradient.device)
        # A fused step writes unscaled gradients over scaled ones, so it has to wait for their copies.
        with torch.cuda.stream(torch.cuda.current_stream(gradient.device) if fused else stream):
            average.copied.copy_(gradient, non_blocking=True)
        gradient.record_stream(stream)
        average.waiting = True

    def _begin(self, device: torch.device) -> torch.cuda.Stream:
        """Return the stream beside the training's, behind what the training has computed so far."""
        devices = self._devices
        if device not in devices.streams:
            devices.streams[device] = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        if device not in devices.begun:
            devices.begun.add(device)
            devices.streams[device].wait_stream(torch.cuda.current_stream(device))
        return devices.streams[device]

    def _end(self, *, fused: bool) -> None:
        for device in self._devices.begun:
            stream = self._devices.streams[device]
            if fused:
                stream.wait_stream(torch.cuda.current_stream(device))
            self._devices.done[device] = stream.record_event()
        self._devices.begun.clear()

    def _take_in(self) -> None:
        """Wait for the copies of the last step, and average them."""
        for event in self._devices.done.values():
            event.synchronize()
        self._devices.done.clear()
        waiting = [average for average in self._averages.values() if average.waiting]
        for average in waiting:
            average.waiting = False
            if not self._infinite():
                average.take(average.copied, self._factor())

    def _infinite(self) -> bool:
        found = self._devices.found_inf
        return found is not None and bool(found)

    def _factor(self) -> float:
        scale = self._devices.scale
        return 1.0 if scale is None else 1.0 / float(scale)

    def _parameters(self) -> Iterator[torch.Tensor]:
        return (parameter for group in self._optimizer.param_groups for parameter in group["params"])


def _has_closure(args: tuple[object, ...], kwargs: Mapping[str, object]) -> bool:
    # The first argument is the optimizer itself.
    return any(closure is not None for closure in (*args[1:2], kwargs.get("closure")))


def _on_host(value: object) -> torch.Tensor | None:
    """Return a number that may lie on a device, in host memory once the stream has come so far."""
    if not isinstance(value, torch.Tensor):
        return None
    pinned = torch.empty(value.shape, dtype=value.dtype, pin_memory=value.device.type == "cuda")
    return pinned.copy_(value, non_blocking=True)
