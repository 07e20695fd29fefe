"""Export recipes: a pipeline of stages from a model to a program, and sessions that run it."""
