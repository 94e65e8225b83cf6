"""32-bit floats that kernels may get wrong: zeros, NaNs, infinities, subnormal, least and largest ones."""

import numpy as np

SPECIAL = np.array(
    [
        0.0,
        -0.0,
        np.nan,
        -np.nan,
        np.inf,
        -np.inf,
        1e-45,
        -1e-40,
        1.1754942e-38,
        1.1754944e-38,
        3.4e38,
        -3.4e38,
    ],
    np.float32,
)
