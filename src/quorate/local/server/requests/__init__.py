"""HTTP requests: what is requested, by which user, in which media type, and the response."""
