"""How exactly an optimizer's moments are kept, and what its next update would be."""
