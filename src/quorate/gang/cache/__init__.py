"""The state of the gang core between sessions, built from API objects."""
