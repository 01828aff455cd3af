"""How fast, how good and how dear admission is over HTTP, against any API server.

Workloads are created as in the benchmark of Kueue's scheduler, by as many creators, each of which waits for
its interval after each answer; the job simulator finishes jobs when their time is up.  Everything is
measured from outside, so any controllers that know the API can be measured, side by side on one server.
"""
