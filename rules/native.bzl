"""The rules behind the macros of defs.bzl, under names that the macros leave free."""

native_executorch_backend = executorch_backend
native_executorch_cc_library = executorch_cc_library
native_executorch_model = executorch_model
native_executorch_test = executorch_test
