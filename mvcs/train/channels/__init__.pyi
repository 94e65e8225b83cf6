from .gradients import QuantizedAdam, QuantizedGradients

__all__ = ["QuantizedAdam", "QuantizedGradients"]
