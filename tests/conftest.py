"""Properties are tested with the same examples in every run; ``make search`` generates new ones.

Examples have no deadline: their duration depends on the machine.
"""

import os

from hypothesis import settings

settings.register_profile("steady", derandomize=True, deadline=None)
settings.register_profile("search", max_examples=2_000, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))
