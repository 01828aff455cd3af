"""YAML by libyaml: ten times as fast as ``yaml.safe_load`` and ``yaml.safe_dump``."""

from typing import Any

import yaml


def load(text: str | bytes) -> Any:
    return yaml.load(text, yaml.CSafeLoader)


def dump(document: object) -> str:
    return yaml.dump(document, Dumper=yaml.CSafeDumper)
