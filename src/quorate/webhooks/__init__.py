"""Admission and conversion webhooks: what the API server asks before it stores or shows an object.

They add comfort, not correctness.  With them a job is suspended before it is stored, a mistake is refused
while its author is looking, and clients may speak v1beta1; without them the controllers suspend, explain in
conditions, and read what is stored.  Every replica serves them, whether it leads or not.
"""
