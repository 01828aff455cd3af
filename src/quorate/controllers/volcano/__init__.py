"""Volcano's controllers: of Jobs of ``batch.volcano.sh``, of pod groups for other pods, and of queues.

The decisions are pure functions: ``job.job_sync``, ``pod_groups.batch_job_groups`` and ``queue_state``.
"""
