"""The bytes of a pack: its header, its entries, and the footer that indexes them."""
