"""A commit made of the last one: without some files, under other names, or said anew."""
