"""Models of worker clusters that serve no estimates, such as one with Kueue's own controllers.

Each is fed by a read-only watch of the cluster, and played in a process of its own by the same core that
plays this cluster.  It exists while questions about the cluster are asked.
"""

import asyncio
from collections.abc import Iterable
from typing import Any, Final

from quorate.api.explanation import StartAnswer, StartQuestion
from quorate.controllers.informers import CacheSyncTimeout, synced
from quorate.kube.cancellation import end_tasks
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.errors import Forbidden, NotFound, RequestFailed
from quorate.kube.informer import Informer
from quorate.kube.log import logger
from quorate.kube.resources import LIMIT_RANGES, RESERVATIONS, RUNTIME_CLASSES, WORKLOAD_PRIORITY_CLASSES
from quorate.observe.estimates import Question
from quorate.observe.limits import MOST_QUESTIONS, QUESTION_DEADLINE_S
from quorate.processes.estimation.messages import KINDS, Configure, frame
from quorate.processes.estimation.player_process import ObjectChanges, answer_question, player_process

_FAILURES: Final = (RequestFailed, CacheSyncTimeout, TimeoutError, OSError, EOFError)
IDLE_S: Final = 600.0  # without a question, after which the watch and the process end
SYNC_S: Final = 60.0  # within which the cluster is listed
# The account of a manager has no right to read these; see ``install.multikueue_worker``.
_UNREAD: Final = (LIMIT_RANGES, RUNTIME_CLASSES, WORKLOAD_PRIORITY_CLASSES)
WATCHED: Final = tuple(resource for resource in KINDS if resource not in _UNREAD)


class _Model:
    """The model of one cluster through one client; a reconnection makes a new model."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.questions: asyncio.Queue[Question] = asyncio.Queue(MOST_QUESTIONS)
        self.problem = ""  # why it ended
        self.task: asyncio.Task[None] | None = None


class ClusterModels:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._models: dict[str, _Model] = {}
        self._tasks: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Keep the models that are asked for until cancelled."""
        async with asyncio.TaskGroup() as self._tasks:
            await asyncio.Event().wait()

    async def would_start(self, cluster: str, client: Client, question: StartQuestion) -> StartAnswer:
        """Return when the workload of a question would start in a cluster, within ``QUESTION_DEADLINE_S``."""
        model = self._model(cluster, client)
        if model is None or model.questions.full():
            return StartAnswer(starts="Unknown", reason="too many other questions wait")
        answer: asyncio.Future[StartAnswer] = asyncio.get_running_loop().create_future()
        model.questions.put_nowait(Question(question, answer))
        assert model.task is not None, "a model runs"
        await asyncio.wait(
            (answer, model.task), timeout=QUESTION_DEADLINE_S, return_when=asyncio.FIRST_COMPLETED
        )
        if answer.done():
            return answer.result()
        answer.cancel()
        return StartAnswer(starts="Unknown", reason=model.problem or "the cluster is being read")

    def _model(self, cluster: str, client: Client) -> _Model | None:
        model = self._models.get(cluster)
        if model is not None and model.client is client and model.task is not None and not model.task.done():
            return model
        if self._tasks is None:
            return None
        if model is not None and model.task is not None:
            model.task.cancel()
        model = self._models[cluster] = _Model(client)
        model.task = self._tasks.create_task(self._play(cluster, model))
        return model

    async def _play(self, cluster: str, model: _Model) -> None:
        """Watch a cluster and answer questions, until none is asked for ``IDLE_S`` or a read fails."""
        informers = [Informer(model.client, resource) for resource in WATCHED]
        watches = [asyncio.ensure_future(watched(informer)) for informer in informers]
        answering = asyncio.ensure_future(self._answer(model, informers))
        try:
            await asyncio.wait((*watches, answering), return_when=asyncio.FIRST_COMPLETED)
            for task in (*watches, answering):
                if task.done():
                    task.result()
        except _FAILURES as error:
            model.problem = f"it serves no estimates, and cannot be read: {error}"
            logger(__name__).warning("model of a worker cluster ended", cluster=cluster, problem=str(error))
        except Exception as error:  # what a worker cluster sends must not end the other controllers
            model.problem = f"it serves no estimates, and its model failed: {type(error).__name__}"
            logger(__name__).fault("model of a worker cluster ended", error, cluster=cluster)
        finally:
            await end_tasks((*watches, answering))

    async def _answer(self, model: _Model, informers: Iterable[Informer[Any]]) -> None:
        informers = list(informers)
        await synced(*informers, within_s=SYNC_S)
        changes = ObjectChanges(informers)
        changes.start()
        async with player_process() as worker:
            assert worker.stdin is not None
            assert worker.stdout is not None
            worker.stdin.write(frame(Configure("")))
            while True:
                async with asyncio.timeout(IDLE_S):
                    question = await model.questions.get()
                if not question.answer.done():
                    await changes.send(worker.stdin)
                    await answer_question(worker.stdin, worker.stdout, question, self._clock.now())


async def watched(informer: Informer[Any]) -> None:
    """Follow a kind until a read fails; a kind that the cluster does not have has no objects.

    Neither has Reservations an account of a manager that may not read them.
    """
    try:
        await informer.run_until_failure()
    except (NotFound, Forbidden) as error:
        if isinstance(error, Forbidden) and informer.resource is not RESERVATIONS:
            raise
        informer.synced.set()
        await asyncio.Event().wait()
