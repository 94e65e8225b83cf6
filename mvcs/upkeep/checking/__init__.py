"""fsck: what a store holds is compared with its names, and with what its commits need."""
