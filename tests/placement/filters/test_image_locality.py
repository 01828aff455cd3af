"""Nodes that have a pod's images already."""

import pytest

from tests.placement.filters.world import World, node, pod

MIB = 2**20


def having(name: str, *images: str) -> object:
    """``busybox:1=500``: the image and its size in MiB."""
    pairs = (image.split("=") for image in images)
    return node(name, images=[{"names": [image], "sizeBytes": int(size) * MIB} for image, size in pairs])


def world(*nodes: object) -> World:
    return World(*nodes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("on_a", "on_b", "want"),
    [
        # (500 / 2 - 23) of (1000 - 23)
        pytest.param("app:1=500", "other:1=500", {"a": 23, "b": 0}, id="half of the nodes have it"),
        # (500 - 23) of (1000 - 23)
        pytest.param("app:1=500", "app:1=500", {"a": 48, "b": 48}, id="all nodes have it"),
        pytest.param(
            "app:1=4000", "other:1=1", {"a": 100, "b": 0}, id="more than most does not count for more"
        ),
        pytest.param("app:1=8000000000000", "app:1=1", {"a": 100, "b": 0}, id="more than there can be"),
        pytest.param("app:1=500", "app:1=3000", {"a": 48, "b": 100}, id="each node says how large it is"),
    ],
)
def test_images_count_by_size_and_by_how_many_nodes_have_them(
    on_a: str, on_b: str, want: dict[str, int]
) -> None:
    assert world(having("a", on_a), having("b", on_b)).measure(pod("p", image="app:1"), "images") == want


def test_small_images_do_not_count() -> None:
    assert world(having("a", "app:1=23")).filter_result(pod("p", image="app:1")).raw_scores.images is None


def test_the_images_of_all_containers_count_together() -> None:
    there = world(having("a", "app:1=500", "setup:1=1000"))
    both = pod("p", image="app:1", initContainers=[{"name": "setup", "image": "setup:1"}])
    assert there.measure(both, "images") == {"a": 74}  # (1500 - 23) of (2000 - 23)


@pytest.mark.parametrize(
    ("image", "listed"),
    [
        pytest.param("app", "app:latest", id="no tag is the latest"),
        pytest.param("hub:5000/app", "hub:5000/app:latest", id="a port is no tag"),
        pytest.param("app:2", "app:2", id="a tag is one"),
        pytest.param("app@sha256:12", "app@sha256:12", id="so is a digest"),
    ],
)
def test_images_are_known_by_their_full_names(image: str, listed: str) -> None:
    assert world(having("a", f"{listed}=1000")).measure(pod("p", image=image), "images") == {"a": 100}


def test_images_come_and_go() -> None:
    there = world(having("a"), having("b"))
    wanted = pod("p", image="app:1")
    assert there.filter_result(wanted).raw_scores.images is None
    there.cluster.set_node(having("b", "app:1=1000"))  # type: ignore[arg-type]
    assert there.measure(wanted, "images") == {"a": 0, "b": 48}  # (1000 / 2 - 23) of (1000 - 23)
    there.cluster.remove_node("b")
    assert there.filter_result(wanted).raw_scores.images is None
