"""Authentication, RBAC authorization and impersonation."""
