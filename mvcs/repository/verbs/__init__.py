"""The verbs of a repository, in groups; each imports the module that does its work when it is first used.

A cold `mvcs log` loads what it needs and nothing else, so the imports stand inside the methods.
"""
