"""Measuring: training runs made for it, every encoding and quantizer on them, and what a history costs."""
