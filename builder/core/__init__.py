"""Values that every other part of the builder speaks in. Standard library only."""
