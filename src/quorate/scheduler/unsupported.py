"""Reports on quotas that have no effect here, so that users do not rely on them."""

from quorate.api.core import ResourceQuota
from quorate.gang.namespace_quota.evaluation import unsupported_scopes
from quorate.kube.informer import Change, Informer
from quorate.kube.log import logger


def report_unsupported_scopes(quotas: Informer[ResourceQuota]) -> None:
    """Log each quota with scopes that are not known, when it comes or changes."""
    log = logger(__name__)

    def on_quota(change: Change[ResourceQuota]) -> None:
        scopes = () if change.new is None else unsupported_scopes(change.new.spec)
        known = () if change.old is None else unsupported_scopes(change.old.spec)
        if scopes and scopes != known:
            log.warning("quota ignored: its scopes are not known", quota=change.key, scopes=scopes)

    quotas.subscribe(on_quota)
