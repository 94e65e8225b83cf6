"""Remotes of one repository: which there are, and what goes to and fro."""
