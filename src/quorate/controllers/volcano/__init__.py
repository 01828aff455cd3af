"""Volcano's controllers: Jobs of ``batch.volcano.sh``, pod groups made for others, and queues.

The rules are pure: ``decide`` says what to do about one job, ``queue_state`` what becomes of a queue.
"""
