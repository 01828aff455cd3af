"""Properties are tested with the same examples in every run; ``make search`` generates new ones.

Examples have no deadline: their duration depends on the machine.
"""

import os

from hypothesis import settings

# A third of Hypothesis' default: with all of them, a run of all tests takes more than ten minutes.
settings.register_profile("steady", max_examples=30, derandomize=True, deadline=None)
settings.register_profile("search", max_examples=2_000, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))
