from .configuration_search import MAGNITUDE, CubeOutcome, CubeSearch, TableCube, TableSetting
from .quantizer import Importance, TableCoding, TableQuantizer, fit_codebook, importance_of

__all__ = [
    "MAGNITUDE",
    "CubeOutcome",
    "CubeSearch",
    "Importance",
    "TableCoding",
    "TableCube",
    "TableQuantizer",
    "TableSetting",
    "fit_codebook",
    "importance_of",
]
