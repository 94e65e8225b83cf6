"""Values to codes, by counting."""


def assign(values, bounds):
    """Return how many bounds lie below each value."""
    return [sum(1 for bound in bounds if bound < value) for value in values]
