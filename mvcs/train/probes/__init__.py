"""Resume probes: training on from what is restored, against training on from what was handed over."""
