"""Which quantizer each leaf of a bounded commit gets."""
