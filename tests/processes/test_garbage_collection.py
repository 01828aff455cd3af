"""Garbage collections of the long-running processes are short, however many objects arrive together."""

import json
import subprocess
import sys

PROGRAM = """
import gc, json
from quorate.processes.process_setup import tune_garbage_collection

def examine(phase, info):
    if phase == "start":
        generations = range(info["generation"] + 1)
        examined.append(sum(len(gc.get_objects(each)) for each in generations))

examined = []
gc.collect()
gc.freeze()  # the modules
tune_garbage_collection()
gc.callbacks.append(examine)
kept = [[number] for number in range(1_000_000)]
print(json.dumps(examined))
"""


def test_a_collection_examines_eighty_thousand_new_objects_at_most() -> None:
    output = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    examined = json.loads(output.stdout)
    assert len(examined) >= 40
    assert max(examined) < 85_000
