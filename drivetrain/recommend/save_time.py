"""How long a checkpoint takes to save, held against the time that a spot machine leaves."""

from __future__ import annotations

from drivetrain.catalog.instances import GIB
from drivetrain.recommend.facts import Facts

# Between SIGTERM and SIGKILL the service leaves 120 s; the launcher gives ranks this many of them.
STOP_SECONDS = 90
# A slow disk: what is assumed of an instance type whose checkpoints folder nobody has measured.
ASSUMED_BYTES_PER_SECOND = 100e6
# Assumed times below this are not worth a word: a tenth of the real speed would still do.
WORTH_SAYING_SECONDS = STOP_SECONDS / 10


def save_time_note(facts: Facts, instance: str) -> str | None:
    """A warning where saving may take longer than a stopped spot machine allows; marked *assumed* where the speed was
    not measured on that instance. Never a refusal."""
    measured = facts.checkpoint_bytes_per_second.get(instance)
    seconds = facts.checkpoint_bytes / (measured or ASSUMED_BYTES_PER_SECOND)
    size = f"a checkpoint of {facts.checkpoint_bytes / GIB:.1f} GiB takes about {seconds:.0f} s to save"
    if measured is None:
        if seconds < WORTH_SAYING_SECONDS:
            return None
        return (
            f"{size} at 100 MB/s (*assumed*: not measured on {instance}); a spot machine that is taken back leaves "
            f"{STOP_SECONDS} s. Measure it there: drivetrain recommend --recipe {facts.recipe} --instance {instance} "
            "--write --write-speed /opt/ml/checkpoints"
        )
    if seconds <= STOP_SECONDS:
        return None
    return (
        f"{size} at the {measured / 1e6:.0f} MB/s measured on {instance}, and a spot machine that is taken back leaves "
        f"{STOP_SECONDS} s: the steps since the checkpoint before would be lost. Save often, or shard the model."
    )
