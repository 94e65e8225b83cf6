"""The code tables of the published method, and the scores of weights that they go by."""
