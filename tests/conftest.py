"""Properties are tested with the same examples in every run; ``make search`` generates new ones.

Examples have no deadline: their duration depends on the machine.
"""

import os
from functools import cache
from pathlib import Path
from typing import Final

import pytest
from hypothesis import settings

# A third of Hypothesis' default: with all of them, a run of all tests takes more than ten minutes.
settings.register_profile("steady", max_examples=30, derandomize=True, deadline=None)
settings.register_profile("search", max_examples=2_000, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))

# Tracing branches doubles the processor time of a test.  These stories reach nearly all code that the others
# reach, so the others are not measured.
MEASURED_STORIES: Final = frozenset(
    {
        "test_gangs",
        "test_pods",
        "test_verbs_explain",
        "test_volcano_jobs",
    }
)
# These reach hardly any code that the measured tests do not reach: together half a percent, and they take a
# third of the processor time.
UNMEASURED: Final = (
    "api/test_crds.py",
    "bench",
    "cli/deployment/test_chart.py",
    "cli/deployment/test_gang_definitions.py",
    "cli/deployment/test_gang_manifests.py",
    "cli/deployment/test_manifests.py",
    "cli/test_documentation.py",
    "controllers/jobs/test_hostile_documents.py",
    "fuzz",
    "gang/test_deserved.py",
    "gang/test_enqueue.py",
    "gang/test_loops.py",
    "gang/test_proportion.py",
    "gang/test_share_cases.py",
    "language",
    "placement/test_cluster.py",
    "queueing/test_pending_queue.py",
    "quota/test_tree.py",
    "simulate/engine/test_truth.py",
    "test_mutations.py",
    "test_sleeping.py",
    "webhooks/volcano/test_volcano_scenarios.py",
    "witness/test_simulated_jobs.py",
)
TESTS: Final = Path(__file__).parent
STORIES: Final = ("conformance", "docs", "e2e", "faults")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave slow stories, generated examples and ``UNMEASURED`` out of the measurement of coverage."""
    moved = [place for place in UNMEASURED if not (TESTS / place).exists()]
    assert not moved, f"no tests are in {moved}"
    for item in items:
        is_generated = getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
        is_unmeasured = _is_below(item.path, UNMEASURED)
        is_story = _is_below(item.path, STORIES) and item.path.stem not in MEASURED_STORIES
        if is_generated or is_unmeasured or (is_story and item.get_closest_marker("slow")):
            item.add_marker(pytest.mark.no_cover)


@cache  # six thousand tests are in hundreds of files
def _is_below(path: Path, places: tuple[str, ...]) -> bool:
    return any(path.is_relative_to(TESTS / place) for place in places)
