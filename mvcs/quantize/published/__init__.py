"""The tables of the published method: their values, and codes of them."""
