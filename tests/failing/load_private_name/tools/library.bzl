def _library(name):
    py_library(name = name)
