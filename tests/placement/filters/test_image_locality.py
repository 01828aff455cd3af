"""Scores of nodes that have the images of a pod."""

import pytest

from tests.placement.filters.world import World, node, pod

MIB = 2**20


def having(name: str, *images: str) -> object:
    """Build a node with images ``busybox:1=500``, the number being the size in MiB."""
    pairs = (image.split("=") for image in images)
    return node(name, images=[{"names": [image], "sizeBytes": int(size) * MIB} for image, size in pairs])


def world(*nodes: object) -> World:
    return World(*nodes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("on_a", "on_b", "want"),
    [
        # (500 / 2 - 23) of (1000 - 23)
        pytest.param("app:1=500", "other:1=500", {"a": 23, "b": 0}, id="half of the nodes have the image"),
        # (500 - 23) of (1000 - 23)
        pytest.param("app:1=500", "app:1=500", {"a": 48, "b": 48}, id="all nodes have the image"),
        pytest.param("app:1=4000", "other:1=1", {"a": 100, "b": 0}, id="a size above the threshold"),
        pytest.param("app:1=8000000000000", "app:1=1", {"a": 100, "b": 0}, id="an excessive size"),
        pytest.param("app:1=500", "app:1=3000", {"a": 48, "b": 100}, id="different sizes on two nodes"),
        pytest.param(
            "app:1=3000 app:1=500", "x:1=1", {"a": 23, "b": 0}, id="the last image of a name counts"
        ),
    ],
)
def test_score_by_size_and_share_of_nodes(on_a: str, on_b: str, want: dict[str, int]) -> None:
    assert (
        world(having("a", *on_a.split()), having("b", on_b)).raw_score(pod("p", image="app:1"), "images")
        == want
    )


def test_small_images_score_zero() -> None:
    assert world(having("a", "app:1=23")).filter_result(pod("p", image="app:1")).raw_scores.images is None


def test_the_sizes_of_all_images_are_added() -> None:
    nodes = world(having("a", "app:1=500", "setup:1=1000"))
    both = pod("p", image="app:1", initContainers=[{"name": "setup", "image": "setup:1"}])
    assert nodes.raw_score(both, "images") == {"a": 74}  # (1500 - 23) of (2000 - 23)


@pytest.mark.parametrize(
    ("image", "listed"),
    [
        pytest.param("app", "app:latest", id="the default tag"),
        pytest.param("hub:5000/app", "hub:5000/app:latest", id="a registry with a port"),
        pytest.param("app:2", "app:2", id="a tag"),
        pytest.param("app@sha256:12", "app@sha256:12", id="a digest"),
    ],
)
def test_images_are_found_by_full_name(image: str, listed: str) -> None:
    assert world(having("a", f"{listed}=1000")).raw_score(pod("p", image=image), "images") == {"a": 100}


def test_scores_follow_changes_of_images() -> None:
    nodes = world(having("a"), having("b"))
    wanted = pod("p", image="app:1")
    assert nodes.filter_result(wanted).raw_scores.images is None
    nodes.cluster.set_node(having("b", "app:1=1000"))  # type: ignore[arg-type]
    assert nodes.raw_score(wanted, "images") == {"a": 0, "b": 48}  # (1000 / 2 - 23) of (1000 - 23)
    nodes.cluster.remove_node("b")
    assert nodes.filter_result(wanted).raw_scores.images is None


def test_an_image_counts_on_a_node_that_gets_it_later_and_not_after_it_is_removed() -> None:
    nodes, asking = world(node("a"), having("b", "other:1=900")), pod("p", image="app:1")
    assert nodes.filter_result(asking).raw_scores.images is None
    nodes.cluster.set_node(having("a", "app:1=500"))  # type: ignore[arg-type]
    assert nodes.raw_score(asking, "images") == {"a": 23, "b": 0}
    nodes.cluster.set_node(node("a"))
    assert nodes.filter_result(asking).raw_scores.images is None
