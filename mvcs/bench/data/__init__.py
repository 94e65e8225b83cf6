"""What the runs learn from: data that every machine has, or that a package ships."""
