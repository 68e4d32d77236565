"""The version of Chronicle."""

__version__ = "0.3.0"
