"""Limits of what the processes serve for observation."""

from typing import Final

DEFAULT_LIMIT: Final = 1000  # pending workloads of one answer of the visibility API, as in Kueue
MAX_LIMIT: Final = 100_000  # pending workloads that one request may ask for
MAX_DIGITS: Final = 9  # of a number in a query
SLICE_S: Final = 0.005  # for which a list of explanations is computed before other tasks run
SLICE_WORKLOADS: Final = 1_000  # of which it is read whether they have pods before other tasks run: 2 ms
MAX_COMPLETE: Final = 200  # pending workloads at most for lists to say of each what its explanation says
KEEP_S: Final = 1.0  # for which the same list is returned again
RENEW_EVERY_S: Final = 300 * 86400.0  # certificates are valid for a year
MOST_QUESTIONS: Final = 32  # about the start of workloads that do not exist yet, which wait for an answer
QUESTION_DEADLINE_S: Final = 12.0  # of one answer: a refresh of the estimates may come before it
