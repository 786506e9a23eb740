"""The KernelArc MCP server and its deterministic host. Imports no torch, cupy or CUDA package."""

__version__ = "0.1.0"
