"""Containers run as a kubelet runs them: commands, environment, volumes, ends."""

import asyncio
import os
import shlex
import shutil
from pathlib import Path

import pytest

from quorate.api.meta import Key
from quorate.local.runtime.containers.cgroups import find_cgroups
from quorate.local.runtime.node import NVIDIA
from tests.local.runtime.world import (
    CONFIG_MAPS,
    DEADLINE_S,
    NODE,
    NODES,
    PODS,
    SECRETS,
    Json,
    World,
    container,
    one_container,
    run_story,
    runs_processes,
    script,
    state_of,
)

pytestmark = [runs_processes, pytest.mark.slow, pytest.mark.usefixtures("one_cluster")]


def test_a_pod_gets_its_command_environment_and_volumes(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.client.create(
            CONFIG_MAPS,
            {"metadata": {"name": "settings"}, "data": {"a.txt": "one", "b.txt": "two"}},
            "default",
        )
        await world.client.create(
            SECRETS, {"metadata": {"name": "hidden"}, "data": {"key": "c2VjcmV0"}}, "default"
        )
        environment = [
            {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "TEAM", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['team']"}}},
            {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "requests.cpu", "divisor": "1m"}}},
            {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "a.txt"}}},
            {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "hidden", "key": "key"}}},
            {"name": "BOTH", "value": "$(POD)-$(A)-$$(A)-$(MISSING)"},
        ]
        mounts = [
            {"name": "settings", "mountPath": "/etc/settings"},
            {"name": "only", "mountPath": "/opt/only/x", "subPath": "renamed", "readOnly": True},
            {"name": "scratch", "mountPath": "/scratch"},
            {"name": "facts", "mountPath": "/facts"},
        ]
        text = """
            echo "$POD $TEAM $CPU $A $KEY $BOTH $1"; pwd; cat /etc/settings/b.txt; echo
            cat /opt/only/x; echo; echo file > /scratch/file; cat /scratch/file; cat /facts/labels; echo
            cat /var/run/secrets/kubernetes.io/serviceaccount/namespace; echo; hostname
            touch /usr/forbidden 2>/dev/null || echo read-only
        """
        main = container(
            "sh", "-c", text, "sh",
            args=["$(TEAM)"],
            env=environment,
            volumeMounts=mounts,
            workingDir="/usr",
            resources={"requests": {"cpu": "250m"}},
        )  # fmt: skip
        volumes = [
            {"name": "settings", "configMap": {"name": "settings"}},
            {
                "name": "only",
                "configMap": {"name": "settings", "items": [{"key": "a.txt", "path": "renamed"}]},
            },
            {"name": "scratch", "emptyDir": {}},
            {
                "name": "facts",
                "downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]},
            },
        ]
        spec = {"restartPolicy": "Never", "containers": [main], "volumes": volumes}
        await world.run_pod("p", spec, labels={"team": "blue"})
        pod = await world.ended("p")
        assert pod["status"]["phase"] == "Succeeded", await world.log("p")
        assert (await world.log("p")).splitlines() == [
            "p blue 250 one secret p-one-$(A)-$(MISSING) blue",
            *("/usr", "two", "one", "file", 'team="blue"', "default", "p", "read-only"),
        ]
        assert state_of(pod)["terminated"]["reason"] == "Completed"

    run_story(tmp_path, story)


def test_exit_codes_restarts_and_messages_are_those_of_a_kubelet(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.run_pod("failing", one_container("echo because > /dev/termination-log; exit 3"))
        await world.run_pod(
            "talking",
            one_container("echo last words; exit 4", terminationMessagePolicy="FallbackToLogsOnError"),
        )
        await world.run_pod(
            "missing", {"restartPolicy": "Never", "containers": [container("no-such-program")]}
        )
        await world.run_pod("killed", one_container("kill -9 $$$$"))
        await world.run_pod("again", one_container("exit 1", restart_policy="OnFailure"))
        await world.run_pod("leaving", one_container("sleep 4712 & exit 0"))
        await world.run_pod("unset", one_container("true", envFrom=[{"configMapRef": {"name": "absent"}}]))

        failing = state_of(await world.ended("failing"))["terminated"]
        assert (failing["exitCode"], failing["reason"], failing["message"]) == (3, "Error", "because\n")
        assert state_of(await world.ended("talking"))["terminated"]["message"] == "last words\n"
        missing = state_of(await world.ended("missing"))["terminated"]
        assert (missing["exitCode"], missing["reason"]) == (128, "StartError")
        assert missing["message"] == 'exec: "no-such-program": executable file not found in $PATH'
        assert state_of(await world.ended("killed"))["terminated"]["exitCode"] == 137
        assert state_of(await world.ended("leaving"))["terminated"]["exitCode"] == 0
        async with asyncio.timeout(DEADLINE_S):
            while "sleep 4712" in world.programs():  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        again = await world.until(
            "again", lambda pod: state_of(pod).get("waiting", {}).get("reason") == "CrashLoopBackOff"
        )
        assert again["status"]["phase"] == "Running"
        assert again["status"]["containerStatuses"][0]["restartCount"] == 1
        assert again["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 1
        unset = await world.until("unset", lambda pod: state_of(pod).get("waiting", {}).get("message"))
        assert state_of(unset)["waiting"] == {
            "reason": "CreateContainerConfigError",
            "message": 'configmap "absent" not found',
        }
        await world.client.create(CONFIG_MAPS, {"metadata": {"name": "absent"}, "data": {}}, "default")
        assert (await world.ended("unset"))["status"]["phase"] == "Succeeded"

    run_story(tmp_path, story)


def test_a_command_that_cannot_be_executed_fails_the_start(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        commands = {
            "absent": (("no-such-program",), 'exec: "no-such-program": executable file not found in $PATH'),
            "builtin": (("exit", "3"), 'exec: "exit": executable file not found in $PATH'),
            "path": (("/no/program",), 'exec: "/no/program": stat /no/program: no such file or directory'),
            "forbidden": (("/etc/passwd",), 'exec: "/etc/passwd": permission denied'),
        }
        ways: dict[str, tuple[Json, Json]] = {
            "plain": ({}, {}),
            "user": ({}, {"securityContext": {"runAsUser": 1000}}),
            "terminal": ({}, {"stdin": True, "tty": True}),
            "shared": ({"shareProcessNamespace": True}, {}),
        }
        for way, (pod_fields, fields) in ways.items():
            containers = [container(*words, **fields, name=name) for name, (words, _) in commands.items()]
            own = script("no-such-program", name="own", **fields)  # of a shell that is the command
            spec = {"restartPolicy": "Never", "containers": [*containers, own], **pod_fields}
            await world.run_pod(way, spec)
        for way in ways:
            pod = await world.ended(way)
            for name, (_, message) in commands.items():
                ended = state_of(pod, name)["terminated"]
                assert (ended["exitCode"], ended["reason"]) == (128, "StartError"), (way, name, ended)
                assert ended["message"] == message, (way, name)
            own_end = state_of(pod, "own")["terminated"]
            assert (own_end["exitCode"], own_end["reason"]) == (127, "Error"), (way, own_end)

    run_story(tmp_path, story)


def test_a_file_without_a_format_is_not_run_by_a_shell(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        files = {"bare": "echo ran", "lined": "#!/bin/sh\necho ran", "empty": ""}
        mount = {"volumeMounts": [{"name": "work", "mountPath": "/work"}]}
        writes = [f"printf {shlex.quote(text)} > /work/{name}" for name, text in files.items()]
        writing = script("; ".join([*writes, "chmod +x /work/*"]), name="writes", **mount)
        path = {"env": [{"name": "PATH", "value": "/bin:/work"}], "workingDir": "/work", **mount}
        commands = {name: f"/work/{name}" for name in files} | {"found": "bare", "near": "./bare"}
        containers = [container(command, name=name, **path) for name, command in commands.items()]
        volumes = [{"name": "work", "emptyDir": {}}]
        spec = {"initContainers": [writing], "containers": containers, "volumes": volumes}
        await world.run_pod("p", {"restartPolicy": "Never", **spec})
        pod = await world.ended("p")
        assert state_of(pod, "lined")["terminated"]["exitCode"] == 0
        paths = {
            "bare": "/work/bare",
            "empty": "/work/empty",
            "found": "/work/bare",
            "near": "./bare",
        }
        for name, program in paths.items():
            ended = state_of(pod, name)["terminated"]
            assert (ended["exitCode"], ended["reason"]) == (255, "Error"), (name, ended)
            assert (await world.log("p", name)).strip() == f"exec {program}: exec format error"

    run_story(tmp_path, story)


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="a shell starts the command without bubblewrap")
def test_names_of_variables_need_not_be_those_of_a_shell(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        data = {"metadata": {"name": "c"}, "data": {"spring.profile": "a b", "data-1": "one", "PLAIN": "x"}}
        await world.client.create(CONFIG_MAPS, data, "default")
        main = container("env", envFrom=[{"configMapRef": {"name": "c"}}])
        await world.run_pod("p", {"restartPolicy": "Never", "containers": [main]})
        await world.ended("p")
        lines = (await world.log("p")).splitlines()
        assert {"spring.profile=a b", "data-1=one", "PLAIN=x"} <= set(lines)

    run_story(tmp_path, story)


@pytest.mark.skipif(os.geteuid() != 0, reason="runs containers as other users, which needs root")
def test_probes_run_as_the_user_of_the_container(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        context = {"runAsUser": 1000, "runAsGroup": 50}
        probe = {"exec": {"command": ["sh", "-c", "test $(id -u):$(id -g) = 1000:50"]}, "periodSeconds": 1}
        main = container("sleep", "60", securityContext=context, readinessProbe=probe)
        await world.run_pod("p", {"terminationGracePeriodSeconds": 0, "containers": [main]})
        await world.until(
            "p", lambda pod: any(c["ready"] for c in pod["status"].get("containerStatuses", ()))
        )

    run_story(tmp_path, story)


def test_a_command_may_be_a_program_that_also_starts_containers(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        main = container("setsid", "--fork", "--wait", "sleep", "60", securityContext={"runAsUser": 1000})
        await world.run_pod("p", {"terminationGracePeriodSeconds": 0, "containers": [main]})
        await world.until("p", lambda pod: state_of(pod).get("running"))

    run_story(tmp_path, story)


def test_init_containers_and_sidecars_run_in_order(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        mount: Json = {"volumeMounts": [{"name": "shared", "mountPath": "/shared"}]}
        spec = {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 5,
            "volumes": [{"name": "shared", "emptyDir": {"medium": "Memory"}}],
            "initContainers": [
                script("echo first >> /shared/order", name="first", **mount),
                script(
                    "echo sidecar >> /shared/order; trap 'exit 0' TERM; while :; do sleep 0.1; done",
                    name="sidecar",
                    restartPolicy="Always",
                    startupProbe={"exec": {"command": ["grep", "-q", "sidecar", "/shared/order"]}},
                    **mount,
                ),
                script("echo last >> /shared/order", name="last", **mount),
            ],
            "containers": [script("cat /shared/order", **mount)],
        }
        await world.run_pod("ordered", spec)
        pod = await world.ended("ordered")
        assert pod["status"]["phase"] == "Succeeded"
        assert (await world.log("ordered")).split() == ["first", "sidecar", "last"]
        assert state_of(pod, "sidecar")["terminated"]["exitCode"] == 0

    run_story(tmp_path, story)


def test_probes_hooks_and_deadlines_decide(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        server = (
            "import http.server as s; s.HTTPServer(('', 18123), s.SimpleHTTPRequestHandler).serve_forever()"
        )
        ready = container(
            "python3", "-c", server, readinessProbe={"httpGet": {"port": 18123}, "periodSeconds": 1}
        )
        await world.run_pod("ready", {"containers": [ready], "terminationGracePeriodSeconds": 1})
        live = script("sleep 1000", livenessProbe={"exec": {"command": ["false"]}, "failureThreshold": 1})
        await world.run_pod("unwell", {"containers": [live], "terminationGracePeriodSeconds": 1})
        deadline = {
            **one_container("sleep 1000"),
            "activeDeadlineSeconds": 1,
            "terminationGracePeriodSeconds": 1,
        }
        await world.run_pod("late", deadline)

        def conditions(pod: dict[str, object]) -> object:
            status = pod["status"]
            assert isinstance(status, dict)
            return [c["status"] for c in status.get("conditions", ()) if c["type"] == "Ready"] == ["True"]

        await world.until("ready", conditions)
        await world.until("unwell", lambda pod: pod["status"]["containerStatuses"][0]["restartCount"] >= 1)
        late = await world.ended("late")
        assert (late["status"]["phase"], late["status"]["reason"]) == ("Failed", "DeadlineExceeded")
        killing = "Container main failed liveness probe, will be restarted"
        await world.until_event("unwell", "Killing", killing)

    run_story(tmp_path, story)


def test_the_command_of_a_probe_ends_at_its_timeout(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        probe = {"exec": {"command": ["sleep", "2000"]}, "timeoutSeconds": 1, "periodSeconds": 1000}
        await world.run_pod("p", one_container("exec sleep 1000", readinessProbe=probe))
        await world.running("p")
        await world.until_event("p", "Unhealthy", "Readiness probe failed: command timed out after 1s")
        assert "sleep 1000" in world.programs()
        assert "sleep 2000" not in world.programs()

    run_story(tmp_path, story)


def test_the_node_is_this_machine_and_says_what_is_different(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.run_pod("p", one_container("true"))
        await world.ended("p")
        [node] = (await world.client.list(NODES)).items
        assert node["metadata"]["name"] == NODE
        assert node["status"]["capacity"]["cpu"] == "3"
        assert int(node["status"]["capacity"]["memory"].removesuffix("Ki")) > 0
        conditions = {c["type"]: (c["status"], c["message"]) for c in node["status"]["conditions"]}
        assert conditions["Ready"][0] == "True"
        assert conditions["ImagesPulled"][0] == "False"
        pulled = {message for reason, message in await world.messages("p") if reason == "Pulled"}
        assert pulled == {
            'Container image "host" is not pulled: the files of this machine are used in its place'
        }

    run_story(tmp_path, story, cpu="3")


@pytest.mark.skipif(
    "memory" not in find_cgroups().controllers and not find_cgroups().unified, reason="no cgroups"
)
def test_a_container_above_its_memory_limit_is_killed(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        eats = container("python3", "-c", "b'x' * 400_000_000", resources={"limits": {"memory": "64Mi"}})
        await world.run_pod("greedy", {"restartPolicy": "Never", "containers": [eats]})
        terminated = state_of(await world.ended("greedy"))["terminated"]
        assert (terminated["exitCode"], terminated["reason"]) == (137, "OOMKilled")

    run_story(tmp_path, story)


def test_each_device_belongs_to_one_container(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        one: Json = {"resources": {"limits": {NVIDIA: "1"}}}
        for name in ("one", "two"):
            text = "echo $CUDA_VISIBLE_DEVICES; sleep 1"
            await world.run_pod(name, {**one_container(text, **one), "nodeName": NODE})
        await world.run_pod("none", one_container('echo "<$CUDA_VISIBLE_DEVICES>"'))
        for name in ("one", "two", "none"):
            await world.ended(name)
        assert sorted([await world.log("one"), await world.log("two")]) == ["0\n", "1\n"]
        assert await world.log("none") == "<>\n"

    run_story(tmp_path, story, None, **{NVIDIA: "2"})


def test_volumes_follow_their_config_map(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        settings = {"metadata": {"name": "settings"}, "data": {"word": "old"}}
        await world.client.create(CONFIG_MAPS, settings, "default")
        text = "until grep -q new /settings/word; do sleep 0.1; done; ls -A /settings"
        spec = one_container(text, volumeMounts=[{"name": "settings", "mountPath": "/settings"}])
        volumes = [{"name": "settings", "configMap": {"name": "settings"}}]
        await world.run_pod("follower", {**spec, "volumes": volumes})
        await world.running("follower")
        patch = {"data": {"word": "new", "more": "x"}}
        await world.client.patch(CONFIG_MAPS, Key("default", "settings"), patch)
        assert (await world.ended("follower"))["status"]["phase"] == "Succeeded"

    run_story(tmp_path, story)


def test_no_pod_holds_up_others(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        nul, surrogate = "a" + chr(0), "x" * 200_000
        host = {"name": "v", "hostPath": {"path": "/no" + chr(0)}}
        mounted: Json = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
        hostile: dict[str, Json] = {
            "nul": {"restartPolicy": "Never", "containers": [container("echo", nul)]},
            "long": one_container("true", env=[{"name": "A", "value": surrogate}]),
            "root": {
                **one_container("true", volumeMounts=[{"name": "v", "mountPath": "/"}]),
                "volumes": [{"name": "v", "emptyDir": {}}],
            },
            "path": {**one_container("true", **mounted), "volumes": [host]},
            "loud": one_container("yes | head -c 2000000"),
        }
        for name, spec in hostile.items():
            await world.run_pod(name, spec)
        await world.run_pod("good", one_container("pwd", workingDir="/made/for/it"))
        assert (await world.ended("good"))["status"]["phase"] == "Succeeded"
        assert await world.log("good") == "/made/for/it\n"
        for name in ("nul", "long", "root", "loud"):
            await world.ended(name)
        await world.until("path", lambda pod: pod["status"]["phase"] == "Pending")
        uid = (await world.pod("loud"))["metadata"]["uid"]
        logs = list((world.state / "pods" / uid / "containers/main").glob("0.log*"))
        assert sum(log.stat().st_size for log in logs) < 40_000_000

    run_story(tmp_path, story)


def test_downward_files_follow_the_labels_of_a_running_pod(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        fields = [
            {"path": name, "fieldRef": {"fieldPath": f"metadata.{name}"}}
            for name in ("labels", "annotations")
        ]
        text = "until grep -q two /facts/labels && grep -q note /facts/annotations; do sleep 0.1; done"
        mount = {"name": "facts", "mountPath": "/facts"}
        volumes = [{"name": "facts", "downwardAPI": {"items": fields}}]
        await world.run_pod(
            "p", {**one_container(text, volumeMounts=[mount]), "volumes": volumes}, labels={"step": "one"}
        )
        await world.running("p")
        changed = {"metadata": {"labels": {"step": "two"}, "annotations": {"a": "note"}}}
        await world.client.patch(PODS, Key("default", "p"), changed)
        await world.ended("p")

    run_story(tmp_path, story)


def test_the_status_of_a_pod_says_which_generation_it_is_of(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.run_pod("p", one_container("sleep 60"))
        await world.running("p")
        await world.client.patch(PODS, Key("default", "p"), {"spec": {"activeDeadlineSeconds": 600}})
        pod = await world.until("p", lambda pod: pod["status"].get("observedGeneration") == 2)
        assert pod["metadata"]["generation"] == 2

    run_story(tmp_path, story)
