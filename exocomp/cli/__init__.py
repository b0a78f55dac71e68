"""The command line: one file per noun, a thin client of the daemon."""
