"""Which exact layers stay, and which were given up."""
