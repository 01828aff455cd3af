"""Volcano's controllers: Jobs of ``batch.volcano.sh``, pod groups and queues.

The decisions are pure functions: ``job.job_sync``, ``pod_groups.batch_job_groups`` and ``queue_state``.
"""
