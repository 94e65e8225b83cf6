"""The quantizers: tables, lattices, lattices of moments, and forms without codes."""
