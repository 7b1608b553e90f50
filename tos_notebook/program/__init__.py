"""Captured programs: TensorFlow models in a form that any executor can train.

A program is exported as one SavedModel whose single function adopts a flat parameter
vector, trains over a block of rows in graph, and returns the new vector. A worker needs
none of the user's Python code, nor Keras, to run it.
"""
