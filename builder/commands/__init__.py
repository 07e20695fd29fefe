"""The verbs of the command `build`, one file each, and what they share."""
