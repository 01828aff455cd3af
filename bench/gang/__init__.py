"""Speed and placement quality of the gang core, in one process without I/O."""
