"""The user's evaluation, of a state in the middle of training, here or in a child process."""
