def library(name):
    """A library."""
    py_library(name = name + 1)
