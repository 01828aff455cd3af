"""Services: the addresses of their pods, as EndpointSlices and Endpoints."""
