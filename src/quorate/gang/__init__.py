"""Gang scheduling: pod groups that wait, are admitted, placed whole, and give way whole.

A *gang* is a pod group with its *tasks*, one a pod.  The model is told the newest form of every object; a
*session* runs the configured actions over it, asks the configured plugins, and answers with what to write.
Rules: Volcano 1.15 (profile ``compat``) and the design note "Delay Pod Creation" (profile ``design``).
"""
