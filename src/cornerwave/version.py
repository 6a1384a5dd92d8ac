"""The version of the package; copies carry it in their metadata."""

__version__ = "0.1.0"
