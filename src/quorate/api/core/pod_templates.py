"""Pods of the templates that workloads store, with the fields that affect placement."""

import msgspec

from quorate.api import codec
from quorate.api.core import PodTemplateMeta
from quorate.api.core.pod import Pod, PodMeta
from quorate.api.core.scheduling import PodSpec
from quorate.api.meta import Struct


class PlaceableTemplate(Struct):
    metadata: PodTemplateMeta = PodTemplateMeta()
    spec: PodSpec = PodSpec()


def template_pod(namespace: str, content: bytes | msgspec.Raw) -> Pod:
    """Return a pod of a template.

    It has no constraint if the template cannot be decoded: where it is queued, that is reported.
    """
    try:
        template = codec.decode(PlaceableTemplate, content)
    except msgspec.ValidationError:
        template = PlaceableTemplate()
    return Pod(metadata=PodMeta(namespace=namespace, labels=template.metadata.labels), spec=template.spec)
