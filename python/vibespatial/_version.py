"""The version of the package; `make wheel` writes that of the extension in its place."""

__version__ = "0.0.0"
