from .gradients import QuantizedAdam, QuantizedGradients
from .link import QuantizedLink

__all__ = ["QuantizedAdam", "QuantizedGradients", "QuantizedLink"]
