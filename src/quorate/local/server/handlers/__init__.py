"""Request handlers, one module per verb or subresource."""
