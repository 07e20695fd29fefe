load(":b.bzl", "b")

a = b
