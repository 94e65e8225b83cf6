"""How files are committed, chosen by a function of what would be restored of them."""
