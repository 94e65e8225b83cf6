"""Files of torch.save, read with the restricted loader alone."""
