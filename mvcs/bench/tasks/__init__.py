"""What the runs learn: a module for each model, with its data, its optimizer and its evaluation."""
