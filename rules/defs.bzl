"""The public rules and functions of rules_executorch.

    load("@rules_executorch//rules:defs.bzl", "delegation_spec", "executorch_model", "partitioner")

Only plain data (strings, lists, dicts) goes from here to the rules.
"""

load(
    ":native.bzl",
    "native_executorch_backend",
    "native_executorch_cc_library",
    "native_executorch_model",
    "native_executorch_test",
)

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

def executorch_model(name, model, methods, deps = [], weights = None, constant_methods = {}, **kwargs):
    """An ExecuTorch program, `<name>.pte`, made of a PyTorch model.

    Args:
      name: the target's name.
      model: the function that makes the model, "module:factory", or {method: "module:factory"}.
      methods: {method: spec}, where a spec is delegation_spec(...), partitioner(...), a list of
        these (the first takes what it can, and so on), or None for no backend.
      deps: the py_library targets from which the factory's module is importable.
      weights: the checkpoint, a .safetensors file.
      constant_methods: methods that return a constant, {name: value}.
      **kwargs: attributes that every rule has (visibility, tags, testonly).
    """
    native_executorch_model(
        name = name,
        model = model,
        methods = methods,
        backends = _backends(methods),
        deps = deps,
        weights = weights,
        constant_methods = constant_methods,
        **kwargs
    )

def executorch_backend(name, id, module, deps, partitioner = None, runtime = [], **kwargs):
    """A device backend: the compiler that runs in the build, and the runtime that is linked into apps.

    Args:
      name: the target's name.
      id: the name under which its runtime and its compiler register.
      module: the Python module that registers the compiler when it is imported.
      deps: the compiler's py_library targets.
      partitioner: "module:Class"; without one, the backend takes whole graphs only.
      runtime: the cc_library targets that carry it on the device.
      **kwargs: attributes that every rule has (visibility, tags, testonly).
    """
    native_executorch_backend(
        name = name,
        id = id,
        module = module,
        deps = deps,
        partitioner = partitioner,
        runtime = runtime,
        **kwargs
    )

def executorch_cc_library(name, model, **kwargs):
    """A program embedded in a binary, with what must be linked.

    The header `<package>/<name>.h` declares `<name>_data` and `<name>_size`.

    Args:
      name: the target's name.
      model: the executorch_model.
      **kwargs: `runtime` (the device's ExecuTorch runtime, by default this machine's), and
        attributes that every rule has (visibility, tags, testonly).
    """
    native_executorch_cc_library(name = name, model = model, **kwargs)

def executorch_test(name, model, inputs, deps = [], atol = "1e-4", rtol = "1e-4", **kwargs):
    """Runs each method of a program on the official runtime of this machine and compares with PyTorch.

    Args:
      name: the target's name.
      model: the executorch_model.
      inputs: "module:function"; the function returns {method: [arguments, ...]}, each a tuple.
      deps: py_library targets for `inputs`, besides those of the model.
      atol: how far values may be apart, as a string.
      rtol: how far they may be apart relative to PyTorch's, as a string.
      **kwargs: size, timeout, and attributes that every rule has (visibility, tags).
    """
    native_executorch_test(
        name = name,
        model = model,
        inputs = inputs,
        deps = deps,
        atol = atol,
        rtol = rtol,
        **kwargs
    )

def _backends(methods):
    """The labels of all backends that `methods` name, in order and once each."""
    labels = {}
    if type(methods) == "dict":
        for spec in methods.values():
            for one in (spec if type(spec) == "list" or type(spec) == "tuple" else [spec]):
                if type(one) == "dict" and "backend" in one:
                    labels[one["backend"]] = None
    return labels.keys()
