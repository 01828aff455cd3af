"""ValidatingAdmissionPolicies: CEL expressions that the server evaluates for each request."""
