"""Pure functions on API objects: how they are patched, shown as tables, and checked against their schemas."""
