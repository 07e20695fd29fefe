load(":a.bzl", "a")

b = a
