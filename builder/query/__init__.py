"""Questions about targets and what they depend on, in Bazel's query language."""
