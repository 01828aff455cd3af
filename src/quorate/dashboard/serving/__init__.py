"""The HTTP server: routes, requests, responses, and the event stream."""
