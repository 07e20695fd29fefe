"""The engine on the command line: one file per command."""
