"""The commands, one module each; a module's `command` is what `mvcs NAME` runs."""
