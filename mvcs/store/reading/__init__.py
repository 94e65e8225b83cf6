"""The verified way out of a store: where an object lies, and what has to be decoded for it."""
