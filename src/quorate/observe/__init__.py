"""What the controllers let others see.  Nothing here changes what is decided."""
