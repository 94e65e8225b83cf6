"""Every encoding and quantizer side by side, on the same bytes."""
