"""Branches, tags and notes; and a branch that goes elsewhere, with the folder behind it."""
