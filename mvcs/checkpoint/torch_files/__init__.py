"""Files of torch.save, read without torch."""
