"""The process runtime: one node that runs pods as processes of this machine.

It is no security boundary: pods run with the user's rights and see the host's files.
"""
