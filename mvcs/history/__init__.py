"""What happened in which order: walking commits, resolving revisions, finding where branches parted."""
