"""Limits of what the processes serve for observation."""

from typing import Final

DEFAULT_LIMIT: Final = 1000  # pending workloads of one answer of the visibility API, as in Kueue
MAX_LIMIT: Final = 100_000  # pending workloads that one request may ask for
RENEW_EVERY_S: Final = 300 * 86400.0  # certificates are valid for a year
