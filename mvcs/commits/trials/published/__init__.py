"""What settings of the published method would take and restore."""
