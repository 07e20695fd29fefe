"""The host's device runtime: how C++ programs link the official one, and how tests run programs on it."""
