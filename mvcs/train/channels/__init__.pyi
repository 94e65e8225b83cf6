from .error_feedback import ErrorFeedback
from .gradients import QuantizedAdam, QuantizedGradients
from .link import QuantizedLink

__all__ = ["ErrorFeedback", "QuantizedAdam", "QuantizedGradients", "QuantizedLink"]
