"""Scripts with options in comments, those of ``quorate submit`` and those of Slurm."""

import pytest

from quorate.submission.request import InvalidRequest
from quorate.submission.script import MAX_BYTES, read_script

SLURM = """#!/bin/bash
#SBATCH --job-name=Train_Model
#SBATCH -N 2 --gres=gpu:a100:8
#SBATCH\t--cpus-per-task 4   # of each task
#SBATCH --mem=64G --time=1-12:00:00 -p lab
#SBATCH --mail-type=END --output out.txt
#SBATCH --gpus-per-node=h100:4 --gres=license:2

#QUORATE --env 'A=b c'
srun python train.py
#SBATCH --nodes=9
"""


def test_options_of_slurm_become_those_of_submit() -> None:
    script = read_script("train.sh", SLURM)
    assert script.options == (
        "--name=train-model", "--nodes=2", "--gpus=8", "--cpus=4", "--mem=64G", "--time=1-12:00:00",
        "--queue=lab", "--gpus=4", "--env", "A=b c",
    )  # fmt: skip
    assert script.ignored == ("--mail-type", "--output")
    assert script.command == ("/bin/bash", "-c", SLURM, "train.sh")


@pytest.mark.parametrize(
    ("first", "command"),
    [
        ("#!/usr/bin/env python3", ("/usr/bin/env", "python3", "-c")),
        ("#!/usr/bin/env -S python3 -u", None),
        ("#!/bin/sh -e", ("/bin/sh", "-e", "-c")),
        ("#!/usr/bin/perl", None),
        ("#!", None),
        ("echo", ("/bin/sh", "-c")),
    ],
)
def test_the_first_line_names_the_program(first: str, command: tuple[str, ...] | None) -> None:
    text = f"{first}\n#QUORATE -q lab\n"
    if command is None:
        with pytest.raises(InvalidRequest, match="names no shell and no Python"):
            read_script("x", text)
    else:
        run = read_script("x", text).command
        assert run[: len(command) + 1] == (*command, text)


@pytest.mark.parametrize(
    ("text", "message"),
    [("#!/bin/sh\n#SBATCH --job-name='x\n", "x:2: No closing quotation"), ("a" * (MAX_BYTES + 1), "above")],
)
def test_a_script_that_cannot_be_read_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        read_script("x", text)
