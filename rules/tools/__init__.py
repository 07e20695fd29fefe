"""Programs that the actions of rules run: standard library only, each file by itself."""
