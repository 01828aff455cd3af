"""The composition of each long-running process: its clients, servers, controllers and their order.

``controllers``, ``scheduler`` and ``witness`` each compose one process, ``local`` a cluster on this machine,
and ``estimation`` the process that forecasts starts for the controllers.  ``configuration_reload`` follows
the file of a Configuration, and ``process_setup`` has the identity, signals and garbage collection of a
process.  Imports ``inspect`` and what is below it.
"""
