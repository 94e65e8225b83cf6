"""The log of packs that a collector wants gone, in which writers object."""
