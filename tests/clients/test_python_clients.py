"""Python libraries for Kubernetes on a local cluster: what they read, write, watch and report."""

import os
from pathlib import Path

import pytest

from quorate.testing.server import LocalCluster
from tests.clients.environments import run_story
from tests.e2e.commands import cluster

pytestmark = pytest.mark.quorate(speed=1)


@pytest.mark.parametrize("client", ["kubernetes-31", "kubernetes-36", "kubernetes-37"])
@pytest.mark.parametrize(
    "story",
    [
        "a_queued_job_waits_runs_and_ends",
        "objects_are_created_read_changed_and_deleted",
        "a_dry_run_changes_nothing",
        "a_watch_reports_each_change_and_resumes",
        "a_list_is_read_in_pages",
        "server_side_apply_names_the_manager_in_conflict",
        "custom_resources_have_status_and_scale",
        "manifests_are_created_from_files",
        "rights_are_reviewed",
        "every_list_of_the_client_is_read",
    ],
)
def test_the_official_client(client: str, story: str, queue: LocalCluster) -> None:
    run_story(client, "official", story, queue.environment)


@pytest.mark.parametrize("client", ["kubernetes-31", "kubernetes-36", "kubernetes-37"])
def test_the_official_client_and_pods_that_run_as_processes(client: str, tmp_path: Path) -> None:
    with cluster(tmp_path / "data", "--runtime", "process"):
        environment = {**os.environ, "KUBECONFIG": str(tmp_path / "data" / "kubeconfig")}
        story = "the_log_of_a_process_is_read_and_a_command_is_run_in_it"
        run_story(client, "official", story, environment)


@pytest.mark.parametrize(
    "story",
    [
        "a_queued_job_waits_runs_and_ends",
        "objects_are_created_changed_and_deleted",
        "the_dynamic_client_finds_custom_resources",
    ],
)
def test_the_asynchronous_client(story: str, queue: LocalCluster) -> None:
    run_story("kubernetes-asyncio", "asynchronous", story, queue.environment)


@pytest.mark.parametrize(
    "story",
    [
        "a_queued_job_waits_runs_and_ends",
        "a_failed_job_is_reported",
        "objects_are_created_changed_and_deleted",
        "kinds_are_found_in_discovery",
        "nodes_are_cordoned_and_deployments_are_scaled",
        "a_watch_reports_the_life_of_a_pod",
    ],
)
def test_kr8s(story: str, queue: LocalCluster) -> None:
    run_story("kr8s", "with_kr8s", story, queue.environment)


@pytest.mark.parametrize(
    "story",
    [
        "a_queued_job_waits_runs_and_ends",
        "objects_are_created_applied_and_deleted",
        "custom_resources_come_from_their_definitions",
        "the_models_have_all_fields_of_a_node",
    ],
)
def test_lightkube(story: str, queue: LocalCluster) -> None:
    run_story("lightkube", "with_lightkube", story, queue.environment)


@pytest.mark.long  # its installation takes minutes
def test_parsl(quorate_cluster: LocalCluster) -> None:
    run_story("parsl", "with_parsl", "a_block_runs_and_is_cancelled", quorate_cluster.environment)
