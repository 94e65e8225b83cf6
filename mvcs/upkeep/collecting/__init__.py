"""gc: what nobody needs is found, condemned and, after its grace, deleted."""
