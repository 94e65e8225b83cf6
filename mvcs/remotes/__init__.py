"""Moving history between stores: find what is missing, copy packs, verify, and move refs last."""
