"""ResourceQuotas: what is used of them, and what is reserved for pod groups."""
