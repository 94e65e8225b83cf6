"""What a history takes: its commits, what each holds, and all of them together."""
