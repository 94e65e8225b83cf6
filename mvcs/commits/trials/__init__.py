"""What other settings would take and restore, with nothing stored."""
