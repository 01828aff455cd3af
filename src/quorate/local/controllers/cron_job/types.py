"""Types of the CronJob controller."""

from datetime import datetime
from typing import Final

import msgspec

from quorate.api.batch import EMPTY_OBJECT
from quorate.api.events import ObjectReference
from quorate.api.meta import ObjectMeta, Struct
from quorate.kube.resources import Resource


class CronJobSpec(Struct):
    schedule: str
    time_zone: str = ""
    starting_deadline_seconds: int | None = None
    concurrency_policy: str = "Allow"
    suspend: bool = False
    successful_jobs_history_limit: int = 3
    failed_jobs_history_limit: int = 1
    job_template: msgspec.Raw = EMPTY_OBJECT

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "job_template", self.job_template.copy())


class CronJobStatus(Struct):
    active: tuple[ObjectReference, ...] = ()
    last_schedule_time: datetime | None = None
    last_successful_time: datetime | None = None


class CronJob(Struct):
    metadata: ObjectMeta
    spec: CronJobSpec
    status: CronJobStatus = CronJobStatus()


CRON_JOBS: Final = Resource("batch", "v1", "cronjobs", "CronJob", True, CronJob)
