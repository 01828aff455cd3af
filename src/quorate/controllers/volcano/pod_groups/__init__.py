"""Volcano's pod group controller: pod groups for plain pods and batch/v1 Jobs."""
