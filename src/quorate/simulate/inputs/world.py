"""Worlds: the manifests of a simulation, and the objects that they describe.

A world is read from files as they are applied to a cluster: queues, cohorts, flavors, priority classes,
admission checks, namespaces, a Configuration of the controllers, and one ``Scenario``.  ``changes`` applies
other manifests.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import msgspec

from quorate.api import codec
from quorate.api.configuration import GROUP, Configuration, default_configuration, load_configuration
from quorate.api.core.scheduling import Node
from quorate.api.decoding.documents import SUFFIXES, Document, InvalidYaml, read_documents
from quorate.api.decoding.strict import InvalidConfiguration
from quorate.api.findings import Finding
from quorate.api.kueue.conversion import V1BETA1, V1BETA2, convert_version
from quorate.api.meta import Key, is_true
from quorate.api.suggestions import suggestion
from quorate.api.validation import manifest_findings
from quorate.api.volcano import BUILT_IN_QUEUES
from quorate.kube.resources import (
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    PLACEABLE_NODES,
    QUEUES,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
    Resource,
    metadata_of,
)
from quorate.simulate.inputs import scenario as scenarios
from quorate.simulate.inputs.node_pools import as_ready, nodes_of
from quorate.simulate.inputs.scenario import OTHERS, ClassesOfExisting, JobClass, Scenario, read_scenario
from quorate.simulate.inputs.workload_format import (
    InvalidTrace,
    class_of,
    machine_size,
    processor_class,
    read_trace,
)
from quorate.simulate.kinds import KINDS

RESOURCES: Final[Mapping[tuple[str, str], Resource[Any]]] = {
    (resource.api_version, resource.kind): resource for resource in (*KINDS, PLACEABLE_NODES, QUEUES)
}
TRACE_SUFFIX: Final = ".swf"
_ONE_QUEUE: Final = """\
apiVersion: {api_version}
kind: Scenario
traces: [{{file: {file}, queue: batch}}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {{name: default}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {{name: batch}}
spec:
  namespaceSelector: {{}}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{{name: default, resources: [{{name: cpu, nominalQuota: {size}}}]}}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {{name: batch}}
spec: {{clusterQueue: batch}}
"""


class InvalidWorld(Exception):
    """Files do not describe a world; one line for each finding, as ``file:line: path: value rule``."""

    def __init__(self, findings: Iterable[str]) -> None:
        self.findings = tuple(findings)
        super().__init__(self.findings)

    def __str__(self) -> str:
        return "\n".join(self.findings)


class World(msgspec.Struct, frozen=True):
    directory: Path  # in which the files of traces are looked for
    scenario: Scenario
    configuration: Configuration
    objects: dict[tuple[str, str, Key], Any]  # by apiVersion, kind and key

    @property
    def classes(self) -> tuple[JobClass, ...]:
        """The classes of the scenario, of each trace and model, then of existing workloads."""
        models = (processor_class(model.name, model, (model.queue,)) for model in self.scenario.models)
        return (*self.scenario.classes, *map(class_of, self.scenario.traces), *models, *self.existing)

    @property
    def existing(self) -> tuple[JobClass, ...]:
        """The classes of existing workloads, the last for workloads of no class; none without workloads."""
        return (*self.scenario.existing, OTHERS) if any(self.of_kind(WORKLOADS)) else ()

    @property
    def begins_s(self) -> float:
        """The start of virtual time, epoch seconds."""
        return self.scenario.begins_s

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes of all manifests and pools, by name."""
        nodes = [as_ready(node) for node in self.of_kind(PLACEABLE_NODES)]
        nodes += [node for pool in self.scenario.nodes for node in nodes_of(pool)]
        return tuple(sorted(nodes, key=lambda node: node.metadata.name))

    def of_kind(self, resource: Resource[Any]) -> Iterator[Any]:
        """Yield the objects of one kind in key order."""
        wanted = (resource.api_version, resource.kind)
        for key in sorted(key for key in self.objects if key[:2] == wanted):
            yield self.objects[key]

    def with_objects(self, resource: Resource[Any], objects: Iterable[Any]) -> "World":
        """Return the world with ``objects`` of one kind; each replaces the object of its name, if any."""
        added = {(resource.api_version, resource.kind, obj.metadata.key): obj for obj in objects}
        return msgspec.structs.replace(self, objects=self.objects | added)


def _is_no_job(api_version: str, kind: str) -> bool:
    return False


class Content(msgspec.Struct):
    """The scenarios, Configurations, objects and jobs in the documents of some files, and their findings."""

    scenarios: list[tuple[Path, Scenario]] = []
    configurations: list[Configuration] = []
    objects: dict[tuple[str, str, Key], Any] = {}
    findings: list[str] = []
    jobs: list[tuple[Path, Document]] = []
    is_job: Callable[[str, str], bool] = _is_no_job  # by apiVersion and kind: which are kept in ``jobs``


def read_world(path: Path) -> World:
    """Return the world in a file, in the manifests of a directory, or of a trace.

    Raises ``InvalidWorld`` with all findings.
    """
    if path.suffix == TRACE_SUFFIX:
        return _world_of_trace(path)
    return _world(read_files(path, Content()), path, None)


def _world_of_trace(path: Path) -> World:
    """Return the jobs of a trace in one queue with the processors of its machine."""
    try:
        size = machine_size(path)
    except InvalidTrace as error:
        raise InvalidWorld([str(error)]) from error
    except OSError as error:
        raise InvalidWorld([f"{path}: {(error.strerror or '').lower()}"]) from error
    text = _ONE_QUEUE.format(
        api_version=scenarios.API_VERSION, file=codec.encode(path.name).decode(), size=size
    )
    return read_world_text(text, str(path), path.parent)


def read_world_text(text: str, source: str, directory: Path) -> World:
    """Return the world in a text; ``source`` names it in findings, ``directory`` has the files of traces.

    Raises ``InvalidWorld`` with all findings.
    """
    return _world(read_texts([(Path(source), text.encode())], Content()), Path(source), directory)


def _world(content: Content, path: Path, directory: Path | None) -> World:
    if len(content.scenarios) != 1 and not content.findings:
        written = ", ".join(str(file) for file, _ in content.scenarios) or f"no document of {path}"
        content.findings.append(
            f"{path}: {len(content.scenarios)} scenarios ({written}), must be one: "
            f"write apiVersion: {scenarios.API_VERSION}, kind: Scenario"
        )
    if content.findings:
        raise InvalidWorld(content.findings)
    ((file, scenario),) = content.scenarios
    configuration = content.configurations[-1] if content.configurations else default_configuration()
    world = World(file.parent if directory is None else directory, scenario, configuration, content.objects)
    return checked(world, path)


def read_files(path: Path, content: Content) -> Content:
    """Add the documents of a file, or of the manifests of a directory, to ``content``, and return it."""
    try:
        files = sorted(path.iterdir()) if path.is_dir() else [path]
        files = [file for file in files if file == path or file.suffix in SUFFIXES]
        texts = [(file, file.read_bytes()) for file in files]
    except OSError as error:
        raise InvalidWorld([f"{error.filename}: {(error.strerror or '').lower()}"]) from error
    return read_texts(texts, content)


def read_texts(texts: Iterable[tuple[Path, bytes]], content: Content) -> Content:
    """Add the documents of texts, each with the name of its file, to ``content``, and return it."""
    for file, data in texts:
        try:
            documents = read_documents(data)
        except InvalidYaml as error:
            content.findings.append(f"{file}:{error.line}: {error.problem}")
            continue
        for document in documents:
            content.findings += (finding_line(file, finding) for finding in _add(content, file, document))
    return content


def finding_line(file: Path, finding: Finding) -> str:
    """Return the finding about a file as ``file:line: path: value rule``."""
    return f"{file}:{finding.line or 1}: {msgspec.structs.replace(finding, line=0)}"


def _add(content: Content, file: Path, document: Document) -> list[Finding]:
    """Add the content of one document; return the findings about it."""
    value = document.value
    if not isinstance(value, dict):
        return [Finding("", value, "is no object (write apiVersion, kind and metadata)", document.lines[""])]
    api_version, kind = value.get("apiVersion"), value.get("kind")
    if api_version == scenarios.API_VERSION:
        scenario, findings = read_scenario(document)
        content.scenarios.append((file, scenario))
        return findings
    if isinstance(api_version, str) and api_version.startswith(f"{GROUP}/"):
        try:
            content.configurations.append(load_configuration(codec.encode(value).decode()).configuration)
        except InvalidConfiguration as error:
            return [_located(document, finding) for finding in error.findings]
        return []
    if document.findings:
        return list(document.findings)
    return _add_object(content, file, document, str(api_version), str(kind))


def _add_object(
    content: Content, file: Path, document: Document, api_version: str, kind: str
) -> list[Finding]:
    value: dict[str, Any] = document.value
    resource = RESOURCES.get((V1BETA2 if api_version == V1BETA1 else api_version, kind))
    if resource is None:
        if content.is_job(api_version, kind):
            content.jobs.append((file, document))
            return []
        rule = f"of {api_version} is not simulated (write {kinds()})"
        return [Finding("kind", kind, rule, document.line_of("kind"))]
    findings = [_located(document, finding) for finding in manifest_findings(value)]
    if findings:
        return findings
    try:
        converted = convert_version(value, V1BETA2) if api_version == V1BETA1 else value
        obj = codec.convert(resource.type, converted)
    except (msgspec.ValidationError, KeyError, TypeError, AttributeError) as error:
        return [Finding("", kind, f"cannot be read: {error}", document.line_of("kind"))]
    metadata = metadata_of(obj)
    if not metadata.name:
        rule = "is missing (every object has a name)"
        return [Finding("metadata.name", None, rule, document.line_of("metadata"))]
    namespace = (metadata.namespace or "default") if resource.namespaced else ""
    if metadata.namespace != namespace:
        metadata = msgspec.structs.replace(metadata, namespace=namespace)
        obj = msgspec.structs.replace(obj, metadata=metadata)
    content.objects[resource.api_version, resource.kind, metadata.key] = obj
    return []


def _located(document: Document, finding: Finding) -> Finding:
    return msgspec.structs.replace(finding, line=document.line_of(finding.path))


def kinds() -> str:
    """Return the kinds of objects that are simulated, as text."""
    return ", ".join(sorted(kind for _, kind in RESOURCES))


def checked(world: World, path: Path) -> World:
    """Return the world, with the annotations of its scenario.

    Raises ``InvalidWorld`` if the scenario refers to an absent object.
    """
    findings = [
        *_absent_local_queues(world, path),
        *_volcano_problems(world, path),
        *_other_problems(world, path),
        *_without_run_time(world, path),
        *(problem for trace in world.scenario.traces for problem in _trace_problems(world, trace.file)),
    ]
    if findings:
        raise InvalidWorld(findings)
    return _annotated(world)


def _absent_local_queues(world: World, path: Path) -> Iterator[str]:
    scenario = world.scenario
    used = [
        (job_class.name, job_class.namespace, name)
        for job_class in scenario.classes
        for name in job_class.queues
        if not job_class.is_volcano
    ]
    used += [
        (trace.file, trace.namespace, name)
        for trace in scenario.traces
        for name in sorted(set(trace.queues.values()))
    ]
    used += [(model.name, model.namespace, model.queue) for model in scenario.models]
    queues = {queue.metadata.key for queue in world.of_kind(LOCAL_QUEUES)}
    for user, namespace, name in used:
        key = Key(namespace, name)
        if key not in queues:
            beside = (queue.name for queue in queues if queue.namespace == namespace)
            yield _absent(path, user, "LocalQueue", key, beside)


def _volcano_problems(world: World, path: Path) -> Iterator[str]:
    queues = {queue.metadata.name for queue in world.of_kind(QUEUES)} | BUILT_IN_QUEUES.keys()
    classes = [job_class for job_class in world.scenario.classes if job_class.is_volcano]
    for job_class in classes:
        for name in job_class.queues:
            if name not in queues:
                yield _absent(path, job_class.name, "Queue", Key("", name), queues)
        if not world.nodes:
            problem = "has api: volcano, and there are no nodes (write nodes in the scenario)"
            yield f"{path}: {job_class.name} {problem}"


def _other_problems(world: World, path: Path) -> Iterator[str]:
    priorities = {priority.metadata.name for priority in world.of_kind(WORKLOAD_PRIORITY_CLASSES)}
    for job_class in world.scenario.classes:
        name = job_class.priority_class
        if name and name not in priorities:
            yield _absent(path, job_class.name, "WorkloadPriorityClass", Key("", name), priorities)
    for name, after in pairwise(node.metadata.name for node in world.nodes):
        if name == after:
            yield f"{path}: two nodes are called {name} (give the pool or the Node another name)"
    names = [queue.metadata.name for queue in world.of_kind(CLUSTER_QUEUES)]
    for name in world.scenario.queue_annotations:
        if name not in names:
            yield _absent(path, "clusterQueues", "ClusterQueue", Key("", name), names)


def _annotated(world: World) -> World:
    """Return the world with the annotations of cluster queues that the scenario has."""
    annotated = []
    for queue in world.of_kind(CLUSTER_QUEUES):
        if annotations := world.scenario.queue_annotations.get(queue.metadata.name):
            annotations = {**queue.metadata.annotations, **annotations}
            metadata = msgspec.structs.replace(queue.metadata, annotations=annotations)
            annotated.append(msgspec.structs.replace(queue, metadata=metadata))
    return world.with_objects(CLUSTER_QUEUES, annotated)


def _without_run_time(world: World, path: Path) -> Iterator[str]:
    """Yield a finding for each existing workload of which nothing says how long it runs."""
    existing = world.existing
    classes, others = ClassesOfExisting(existing), len(existing) - 1
    for workload in world.of_kind(WORKLOADS):
        if (
            workload.spec.maximum_execution_time_seconds is None
            and not is_true(workload.status.conditions, "Finished")
            and classes.index_of(workload) == others
        ):
            yield (
                f"{path}: the Workload {workload.metadata.key} has no run time (write a class of its queue "
                "into existing, or maximumExecutionTimeSeconds)"
            )


def _trace_problems(world: World, file: str) -> list[str]:
    path = world.directory / file
    try:
        for _ in read_trace(path):
            pass
    except InvalidTrace as error:
        return [str(error)]
    except OSError as error:
        return [f"{path}: {(error.strerror or '').lower()} (traces are found beside the scenario)"]
    return []


def _absent(path: Path, user: str, kind: str, key: Key, existing: Iterable[str]) -> str:
    hint = suggestion(key.name, existing) or " (add it beside the scenario)"
    return f"{path}: {user} names the {kind} {key}, which is in no manifest{hint}"
