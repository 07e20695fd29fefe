"""The public rules and functions of rules_executorch.

    load("@rules_executorch//rules:defs.bzl", "delegation_spec", "executorch_model", "partitioner")

Only plain data (strings, lists, dicts) goes from here to the rules.
"""

# A device backend: the compiler that runs in the build, and the runtime that is linked into apps.
executorch_backend = native.executorch_backend

# A program embedded in C++ code, with what must be linked.
executorch_cc_library = native.executorch_cc_library

# Runs each method of a program on the official runtime of this machine and compares with PyTorch.
executorch_test = native.executorch_test

def delegation_spec(backend, compile_specs = {}):
    """The whole graph of a method goes to one backend.

    Args:
      backend: the label of an executorch_backend.
      compile_specs: options for the backend's compiler and runtime, {key: string}.

    Returns:
      A value for `methods` of executorch_model.
    """
    return {"kind": "delegation_spec", "backend": backend, "compile_specs": compile_specs}

def partitioner(backend, options = {}):
    """A backend's partitioner chooses the parts of a method that the backend takes.

    Args:
      backend: the label of an executorch_backend that has a partitioner.
      options: keyword arguments for the partitioner's class, {name: plain data}.

    Returns:
      A value for `methods` of executorch_model.
    """
    return {"kind": "partitioner", "backend": backend, "options": options}

def executorch_model(name, methods, backends = [], **kwargs):
    """An ExecuTorch program, `<name>.pte`, made of a PyTorch model.

    The backends that `methods` name become dependencies of the target.

    Args:
      name: the target's name.
      methods: {method: spec}, where a spec is delegation_spec(...), partitioner(...), a list of
        these (the first takes what it can, and so on), or None for no backend.
      backends: backends that the recipe delegates to, beside those that `methods` name.
      **kwargs: the other attributes of the rule.
    """
    native.executorch_model(name = name, methods = methods, backends = backends + _backends(methods), **kwargs)

def _backends(methods):
    """The labels of all backends that `methods` name, in order and once each."""
    labels = {}
    if type(methods) == "dict":
        for spec in methods.values():
            for one in (spec if type(spec) == "list" or type(spec) == "tuple" else [spec]):
                if type(one) == "dict" and "backend" in one:
                    labels[one["backend"]] = None
    return labels.keys()
