"""What the verbs of a repository answer: plain values that render themselves as JSON."""
