def library(name):
    """A library with a name in lower case."""
    _check(name)
    py_library(name = name)

def _check(name):
    if name != name.lower():
        fail("%s: names are in lower case" % name)
