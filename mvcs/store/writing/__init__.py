"""The way into a store: contents become entries near a base or alone, then packs."""
