"""Composer beside a torch that is newer than it asks for."""

import importlib.util

from torch import library

# Composer imports torchvision, which is built for another torch and looks for two operators that it lacks.
if importlib.util.find_spec("composer") is not None:
    _operators = library.Library("torchvision", "DEF")
    for _name in ("nms", "qnms"):
        _operators.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
