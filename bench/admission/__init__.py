"""Benchmark of the speed, quality and cost of admission over HTTP, against any API server.

Workloads are created as in the benchmark of Kueue's scheduler, by the same number of creators, which wait for
their interval after each response; the job simulator finishes jobs after their runtime.  All measurements are
taken from outside, so the same benchmark measures any controllers that implement the API.
"""
