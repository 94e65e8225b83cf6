"""How exactly an optimizer's moments are kept, and where they would still take weights."""
