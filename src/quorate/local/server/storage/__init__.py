"""Stored objects: the revision log and its database."""
