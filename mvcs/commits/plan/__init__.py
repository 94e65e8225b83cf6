"""What is decided before the first byte is stored: files, copies, and the treatment of every leaf."""
