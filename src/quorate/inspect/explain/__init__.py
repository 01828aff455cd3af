"""Explanations of what a command names: served by the controllers, or by a model of this process."""
