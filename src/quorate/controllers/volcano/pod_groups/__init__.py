"""Volcano's pod group controller: pod groups for plain pods and for Jobs of batch/v1, and pod gates."""
