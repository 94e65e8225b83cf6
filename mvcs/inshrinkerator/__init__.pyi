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
from .delta_encoding import huffman, unhuffman
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
    "huffman",
    "importance_of",
    "setting_of",
    "unhuffman",
]
