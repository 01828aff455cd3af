"""Paths and names of webhooks are those of Kueue's manifests."""

from quorate.kube.resources import JOBS, untyped
from quorate.webhooks.routes import ROUTES, route_of

# Copied from Kueue's manifests, independently of the table of routes.
MUTATING = """
/mutate-kueue-x-k8s-io-v1beta2-workload mworkload.kb.io
/mutate-kueue-x-k8s-io-v1beta2-clusterqueue mclusterqueue.kb.io
/mutate-kueue-x-k8s-io-v1beta2-resourceflavor mresourceflavor.kb.io
/mutate-batch-v1-job mjob.kb.io
/mutate-jobset-x-k8s-io-v1alpha2-jobset mjobset.kb.io
/mutate-kubeflow-org-v1-tfjob mtfjob.kb.io
/mutate-kubeflow-org-v1-pytorchjob mpytorchjob.kb.io
/mutate-kubeflow-org-v1-paddlejob mpaddlejob.kb.io
/mutate-kubeflow-org-v1-xgboostjob mxgboostjob.kb.io
/mutate-kubeflow-org-v1-jaxjob mjaxjob.kb.io
/mutate-kubeflow-org-v2beta1-mpijob mmpijob.kb.io
/mutate-trainer-kubeflow-org-v1alpha1-trainjob mtrainjob.kb.io
/mutate-ray-io-v1-rayjob mrayjob.kb.io
/mutate-ray-io-v1-raycluster mraycluster.kb.io
/mutate-ray-io-v1-rayservice mrayservice.kb.io
/mutate-workload-codeflare-dev-v1beta2-appwrapper mappwrapper.kb.io
/mutate-sparkoperator-k8s-io-v1beta2-sparkapplication msparkapplication.kb.io
/mutate--v1-pod mpod.kb.io
/mutate-apps-v1-deployment mdeployment.kb.io
/mutate-apps-v1-statefulset mstatefulset.kb.io
/mutate-leaderworkerset-x-k8s-io-v1-leaderworkerset mleaderworkerset.kb.io
"""


def test_mutating_paths() -> None:
    ours = {f"{route.path('mutate')} {route.name('mutate')}" for route in ROUTES if route.mutates}
    assert ours == set(MUTATING.strip().splitlines())


def test_validating_paths_correspond_and_cohorts_have_one() -> None:
    ours = {f"{route.path('validate')} {route.name('validate')}" for route in ROUTES}
    validating = MUTATING.replace("/mutate-", "/validate-").replace(" m", " v").strip().splitlines()
    assert ours == {*validating, "/validate-kueue-x-k8s-io-v1beta2-cohort vcohort.kb.io"}


def test_a_declared_kind_has_a_path_of_the_same_form() -> None:
    declared = untyped("example.com", "v1", "trainings", "Training", True)
    assert route_of(declared).path("mutate") == "/mutate-example-com-v1-training"
    assert route_of(JOBS) in ROUTES
