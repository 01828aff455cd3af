"""Containers of the process runtime: sandboxed processes, their files and their logs."""
