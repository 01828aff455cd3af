"""What a manager needs to give many workloads to worker clusters: memory, CPU, and requests an admission.

All clusters are local API servers without nodes, each with the controllers.  Jobs are created in the manager;
in a worker cluster a job ends a while after it was started, by a write of this process.
"""
