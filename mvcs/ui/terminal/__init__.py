"""What a terminal can show: widths, columns, numbers and foreign text, and progress."""
