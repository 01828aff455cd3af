"""Limits of simulations and estimates."""

from typing import Final

# Runs
MAX_IDLE_INSTANTS: Final = 1000  # in which no job ends, after which it is asked whether one will
MAX_IDLE_ROUNDS: Final = 100  # the same for several clusters, in which no job starts or ends
MAX_REQUEUES: Final = 100  # of one job with pods that never become ready, after which it is not tried again
MAX_STEPS: Final = 1000  # of one instant; more would be a bug of the lifecycle or the cycle
SESSION_MS: Final = 1000  # between two sessions of the gang scheduler, as Volcano
MAX_NODES: Final = 100_000  # of a pool
MAX_JOBS: Final = 10_000_000  # of a scenario
MAX_DRAWS: Final = 100  # until a value is above a bound

# Results
FIRST_INTERVAL_MS: Final = 1000  # of samples; doubled as the run gets longer
MAX_SAMPLES: Final = 512  # of a series, for queues; then every second one is dropped
MAX_NODE_SAMPLES: Final = 64  # as there may be many more nodes than queues
MAX_SHOWN: Final = 20  # jobs that wait at the end of a run and are listed
NOTICED_MS: Final = 1000.0  # a smaller difference between two waits is none

# Estimates
PLAYS: Final = 20  # runs of one forecast, enough for its median and its 90th percentile
QUESTION_PLAYS: Final = 5  # runs for the start of one workload that may not exist yet
CLUSTER_PLAYS: Final = 3  # of these in a run of several clusters, which asks at each submission
REPEATED: Final = 0.25  # the part of the budget of a refresh within which a further run must end
BACKTEST_SAMPLES: Final = 40  # moments of a backtest
MANY_WAITING: Final = 500  # workloads from which a forecast is coarse
FINE_STEPS: Final = 200  # parts of the usual run time
COARSE_STEPS: Final = 20  # parts of the usual run time, of many workloads
ASSUMED_RUN_S: Final = 3600.0  # of jobs, while nothing is known of any
LONGEST_KEPT_S: Final = 900.0  # a run that is older is dropped
MAX_KINDS: Final = 2000  # of jobs of which run times are kept
MAX_RUN_TIMES: Final = 50  # of a kind: the latest
FEWEST_RUN_TIMES: Final = 3  # of a kind; with fewer, those of its queue say more, or those of all queues
BOUND_QUANTILE: Final = 0.9  # of the run times of a kind: the bound that planned starts rest on
CONFIDENT_RUNS: Final = 10  # of an estimate of high confidence, and as many run times of its kind
HORIZON_S: Final = 7 * 24 * 3600.0  # of a forecast
FEWEST_EXPECTED: Final = 200  # jobs in one run
LEAST_SEEN_S: Final = 600.0  # over which submissions are counted: a single burst is no rate
