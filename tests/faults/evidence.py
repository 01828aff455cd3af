"""What a run with findings leaves: the log of its controllers, and all stored states."""

from pathlib import Path

from tests.faults.trials import Report


def keep(report: Report, directory: Path | None) -> None:
    """Write the evidence of a run with findings into ``directory``; drop it from the report."""
    if directory is not None and report.findings:
        directory.mkdir(parents=True, exist_ok=True)
        name = str(report.trial).replace(" ", "-")
        (directory / f"{name}.log").write_text("\n".join((*report.findings, *report.log)))
        for cluster, history in report.histories.items():
            history.write(directory / f"{name}-{cluster}.jsonl")
    report.log, report.histories = [], {}
