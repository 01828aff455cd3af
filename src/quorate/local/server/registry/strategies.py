"""The strategies of the built-in kinds, by resource and group.

A kind without a strategy is checked for the types of its fields only.
"""

from quorate.local.objects.crd import definition
from quorate.local.server.registry.defaults import cluster as cluster_defaults
from quorate.local.server.registry.defaults import infrastructure as infrastructure_defaults
from quorate.local.server.registry.defaults import pods as pod_defaults
from quorate.local.server.registry.defaults import workloads as workload_defaults
from quorate.local.server.registry.defaults.constants import new_status, set_constants
from quorate.local.server.registry.kinds import Strategy
from quorate.local.server.registry.validation import (
    api_extensions,
    cluster,
    infrastructure,
    job_status,
    networking,
    pod_updates,
    pods,
    quota,
    storage,
    workloads,
)
from quorate.local.server.registry.validation.field_rules import (
    validate_as,
    validate_status_as,
    validate_update_as,
)

RELATIONS_OF_FIELD_RULES = (
    api_extensions,
    cluster,
    infrastructure,
    networking,
    pods,
    quota,
    storage,
    workloads,
)
"""The modules that register, on import, the relations that the table of field rules names."""

STRATEGIES: dict[str, Strategy] = {
    "customresourcedefinitions.apiextensions.k8s.io": Strategy(
        default=definition.set_defaults,
        prepare_for_create=new_status(),
        validate=api_extensions.validate_definition,
        validate_create=definition.creation_findings,
        validate_update=definition.update_findings,
        evaluates=True,
    ),
    "pods": Strategy(
        default=pod_defaults.default_pod,
        prepare_for_create=pod_defaults.prepare_pod_for_create,
        prepare_for_update=pod_defaults.prepare_pod_for_update,
        prepare_for_status_update=pod_defaults.prepare_pod_for_status_update,
        default_on_read=pod_defaults.default_pod_on_read,
        validate=validate_as("Pod"),
        validate_create=validate_as("Pod.create"),
        validate_update=pod_updates.validate_update,
        validate_status=pod_updates.validate_status,
        warnings=pods.pod_warnings,
    ),
    "jobs.batch": Strategy(
        default=workload_defaults.default_job,
        prepare_for_create=workload_defaults.prepare_job_for_create,
        default_on_read=workload_defaults.default_job_on_read,
        validate=validate_as("Job"),
        validate_update=workloads.validate_job_update,
        validate_status=job_status.validate_status,
    ),
    "cronjobs.batch": Strategy(
        default=workload_defaults.default_cron_job,
        prepare_for_create=new_status(),
        validate=validate_as("CronJob"),
        validate_create=validate_as("CronJob.create"),
    ),
    "controllerrevisions.apps": Strategy(
        validate=validate_as("ControllerRevision"),
        validate_create=validate_as("ControllerRevision.create"),
        validate_update=validate_update_as("ControllerRevision.update"),
    ),
    "daemonsets.apps": Strategy(
        default=workload_defaults.default_daemon_set,
        prepare_for_create=workload_defaults.prepare_daemon_set_for_create,
        prepare_for_update=workload_defaults.prepare_daemon_set_for_update,
        validate=validate_as("DaemonSet"),
        validate_update=validate_update_as("Deployment.update"),
    ),
    "podtemplates": Strategy(
        default=workload_defaults.default_pod_template, validate=validate_as("PodTemplate")
    ),
    "replicationcontrollers": Strategy(
        default=workload_defaults.default_replication_controller,
        prepare_for_create=new_status(replicas=0),
        validate=validate_as("ReplicationController"),
    ),
    "deployments.apps": Strategy(
        default=workload_defaults.default_deployment,
        prepare_for_create=new_status(),
        validate=validate_as("Deployment"),
        validate_update=validate_update_as("Deployment.update"),
    ),
    "replicasets.apps": Strategy(
        default=workload_defaults.default_replica_set,
        prepare_for_create=new_status(),
        validate=validate_as("ReplicaSet"),
        validate_update=validate_update_as("Deployment.update"),
    ),
    "statefulsets.apps": Strategy(
        default=workload_defaults.default_stateful_set,
        prepare_for_create=new_status(),
        validate=validate_as("StatefulSet"),
        validate_update=workloads.validate_stateful_set_update,
    ),
    "namespaces": Strategy(
        default=cluster_defaults.default_namespace,
        prepare_for_create=cluster_defaults.prepare_namespace_for_create,
        prepare_for_update=cluster_defaults.prepare_namespace_for_update,
        validate=validate_as("Namespace"),
    ),
    "nodes": Strategy(
        default=cluster_defaults.default_node,
        validate=validate_as("Node"),
        validate_update=validate_update_as("Node.update"),
        validate_status=validate_status_as("Node.status"),
    ),
    "configmaps": Strategy(
        validate=validate_as("ConfigMap"),
        validate_update=cluster.validate_config_map_update,
    ),
    "secrets": Strategy(
        default=cluster_defaults.default_secret,
        validate=validate_as("Secret"),
        validate_update=cluster.validate_secret_update,
    ),
    "limitranges": Strategy(default=cluster_defaults.default_limit_range, validate=validate_as("LimitRange")),
    "priorityclasses.scheduling.k8s.io": Strategy(
        default=set_constants("PriorityClass"),
        validate=validate_as("PriorityClass"),
        validate_update=validate_update_as("PriorityClass.update"),
    ),
    "resourcequotas": Strategy(
        prepare_for_create=new_status(),
        validate=validate_as("ResourceQuota"),
        validate_update=validate_update_as("ResourceQuota.update"),
        validate_status=validate_status_as("ResourceQuota.status"),
    ),
    "services": Strategy(
        default=cluster_defaults.default_service,
        prepare_for_create=cluster_defaults.prepare_service_for_create,
        prepare_for_update=cluster_defaults.prepare_service_for_update,
        validate=validate_as("Service"),
        validate_update=networking.validate_service_update,
    ),
    "leases.coordination.k8s.io": Strategy(validate=validate_as("Lease")),
    "runtimeclasses.node.k8s.io": Strategy(
        validate=validate_as("RuntimeClass"), validate_update=validate_update_as("RuntimeClass.update")
    ),
    "events": Strategy(validate=validate_as("CoreEvent")),
    "events.events.k8s.io": Strategy(
        validate_create=validate_as("Event.create"), validate_update=cluster.validate_event_update
    ),
    "roles.rbac.authorization.k8s.io": Strategy(validate=validate_as("Role")),
    "clusterroles.rbac.authorization.k8s.io": Strategy(validate=validate_as("ClusterRole")),
    "rolebindings.rbac.authorization.k8s.io": Strategy(
        validate=validate_as("RoleBinding"), validate_update=validate_update_as("RoleBinding.update")
    ),
    "clusterrolebindings.rbac.authorization.k8s.io": Strategy(
        validate=validate_as("ClusterRoleBinding"), validate_update=validate_update_as("RoleBinding.update")
    ),
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": Strategy(
        default=set_constants("MutatingWebhookConfiguration"),
        validate=validate_as("MutatingWebhookConfiguration"),
    ),
    "validatingwebhookconfigurations.admissionregistration.k8s.io": Strategy(
        default=set_constants("ValidatingWebhookConfiguration"),
        validate=validate_as("ValidatingWebhookConfiguration"),
    ),
    "poddisruptionbudgets.policy": Strategy(
        default=set_constants("PodDisruptionBudget"),
        prepare_for_create=new_status(),
        validate=validate_as("PodDisruptionBudget"),
    ),
    "persistentvolumes": Strategy(
        default=set_constants("PersistentVolume"),
        prepare_for_create=new_status(phase="Pending"),
        validate=validate_as("PersistentVolume"),
        validate_update=storage.validate_volume_update,
    ),
    "persistentvolumeclaims": Strategy(
        default=set_constants("PersistentVolumeClaim"),
        prepare_for_create=new_status(phase="Pending"),
        validate=validate_as("PersistentVolumeClaim"),
        validate_update=storage.validate_claim_update,
    ),
    "storageclasses.storage.k8s.io": Strategy(
        default=set_constants("StorageClass"),
        validate=validate_as("StorageClass"),
        validate_update=validate_update_as("StorageClass.update"),
    ),
    "csidrivers.storage.k8s.io": Strategy(
        default=set_constants("CSIDriver"),
        validate=validate_as("CSIDriver"),
        validate_update=validate_update_as("CSIDriver.update"),
    ),
    "csistoragecapacities.storage.k8s.io": Strategy(
        validate=validate_as("CSIStorageCapacity"),
        validate_update=validate_update_as("CSIStorageCapacity.update"),
    ),
    "volumeattachments.storage.k8s.io": Strategy(
        prepare_for_create=new_status(attached=False),
        validate=validate_as("VolumeAttachment"),
        validate_update=validate_update_as("VolumeAttachment.update"),
    ),
    "volumeattributesclasses.storage.k8s.io": Strategy(
        validate=validate_as("VolumeAttributesClass"),
        validate_update=validate_update_as("VolumeAttributesClass.update"),
    ),
    "horizontalpodautoscalers.autoscaling": Strategy(
        default=infrastructure_defaults.default_autoscaler,
        prepare_for_create=new_status(desiredReplicas=0),
        validate=validate_as("HorizontalPodAutoscaler"),
        validate_status=validate_status_as("HorizontalPodAutoscaler.status"),
    ),
    "horizontalpodautoscalers.autoscaling/v1": Strategy(
        default=infrastructure_defaults.default_autoscaler_v1,
        prepare_for_create=new_status(currentReplicas=0, desiredReplicas=0),
        validate=validate_as("HorizontalPodAutoscalerV1"),
        validate_status=validate_status_as("HorizontalPodAutoscaler.status"),
    ),
    "ingresses.networking.k8s.io": Strategy(
        prepare_for_create=new_status(loadBalancer={}), validate=validate_as("Ingress")
    ),
    "ingressclasses.networking.k8s.io": Strategy(
        default=set_constants("IngressClass"),
        validate=validate_as("IngressClass"),
        validate_update=validate_update_as("IngressClass.update"),
    ),
    "resourceclaims.resource.k8s.io": Strategy(
        default=infrastructure_defaults.default_claim,
        prepare_for_create=new_status(),
        validate=validate_as("ResourceClaim"),
        validate_update=validate_update_as("ResourceClaim.update"),
        validate_status=validate_status_as("ResourceClaim.status"),
    ),
    "resourceclaimtemplates.resource.k8s.io": Strategy(
        default=infrastructure_defaults.default_claim_template,
        validate=validate_as("ResourceClaimTemplate"),
        validate_update=validate_update_as("ResourceClaimTemplate.update"),
    ),
    "deviceclasses.resource.k8s.io": Strategy(validate=validate_as("DeviceClass")),
    "resourceslices.resource.k8s.io": Strategy(
        validate=validate_as("ResourceSlice"), validate_update=validate_update_as("ResourceSlice.update")
    ),
    "certificatesigningrequests.certificates.k8s.io": Strategy(
        prepare_for_create=new_status(),
        prepare_for_update=infrastructure_defaults.keep_request,
        prepare_for_status_update=infrastructure_defaults.prepare_request_status,
        validate=validate_as("CertificateSigningRequest"),
        validate_status=infrastructure.validate_request_status,
    ),
    "validatingadmissionpolicies.admissionregistration.k8s.io": Strategy(
        default=set_constants("ValidatingAdmissionPolicy"),
        prepare_for_create=new_status(),
        validate=validate_as("ValidatingAdmissionPolicy"),
        warnings=infrastructure.policy_warnings,
    ),
    "validatingadmissionpolicybindings.admissionregistration.k8s.io": Strategy(
        default=set_constants("ValidatingAdmissionPolicyBinding"),
        validate=validate_as("ValidatingAdmissionPolicyBinding"),
    ),
    "csinodes.storage.k8s.io": Strategy(validate=validate_as("CSINode")),
    "networkpolicies.networking.k8s.io": Strategy(
        default=cluster_defaults.default_network_policy, validate=validate_as("NetworkPolicy")
    ),
    "apiservices.apiregistration.k8s.io": Strategy(
        default=set_constants("APIService"),
        prepare_for_create=new_status(),
        validate=validate_as("APIService"),
    ),
    "endpoints": Strategy(default=set_constants("Endpoints"), validate=validate_as("Endpoints")),
    "endpointslices.discovery.k8s.io": Strategy(
        default=set_constants("EndpointSlice"),
        validate=validate_as("EndpointSlice"),
        validate_update=validate_update_as("EndpointSlice.update"),
    ),
}

SUBRESOURCE_STRATEGIES: dict[tuple[str, str], Strategy] = {
    ("certificatesigningrequests.certificates.k8s.io", "approval"): Strategy(
        prepare_for_status_update=infrastructure_defaults.keep_certificate,
        validate_status=infrastructure.validate_request_approval,
    ),
    ("pods", "ephemeralcontainers"): Strategy(
        default=pod_defaults.default_pod,
        prepare_for_update=pod_defaults.prepare_pod_for_ephemeral_containers,
        validate=validate_as("Pod"),
        validate_update=pod_updates.validate_ephemeral_containers,
    ),
    ("pods", "resize"): Strategy(
        default=pod_defaults.default_pod,
        prepare_for_update=pod_defaults.prepare_pod_for_resize,
        validate=validate_as("Pod"),
        validate_update=pod_updates.validate_resize,
    ),
}
"""The strategies of subresources that change a part of the object, by resource and subresource."""
