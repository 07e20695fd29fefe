def library(name, source):
    """A library of one source."""
    py_library(name = name, src = [source])
