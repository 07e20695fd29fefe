def library(name):
    py_library(name = name)
