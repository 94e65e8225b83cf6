from .configuration_search import (
    AXES,
    EMBEDDING_AXES,
    METRICS,
    ConfigurationCube,
    ConfigurationOutcome,
    ConfigurationSearch,
    Setting,
    config_of,
    setting_of,
)
from .quantizer import Importance, TableCoding, TableQuantizer, fit_codebook, importance_of

__all__ = [
    "AXES",
    "EMBEDDING_AXES",
    "METRICS",
    "ConfigurationCube",
    "ConfigurationOutcome",
    "ConfigurationSearch",
    "Importance",
    "Setting",
    "TableCoding",
    "TableQuantizer",
    "config_of",
    "fit_codebook",
    "importance_of",
    "setting_of",
]
