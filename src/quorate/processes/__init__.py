"""The composition of each long-running process: its clients, servers, controllers and their order.

``process_setup`` has the identity, signals and garbage collection of a process.
Imports ``inspect`` and what is below it.
"""
