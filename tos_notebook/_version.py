"""The package's version, here and nowhere else; ``setup.py`` reads it as text."""

__version__ = "0.1.0"
