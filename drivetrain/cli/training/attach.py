"""`drivetrain attach`: where the processes of a run are at this moment."""

from __future__ import annotations

from typing import Annotated

from drivetrain.base.errors import UserError
from drivetrain.cli import local_home
from drivetrain.cli.declared import App, Argument, Option
from drivetrain.cli.options import Home, Json
from drivetrain.telling.terminal import say, say_json

app = App()


@app.command()
def attach(
    run: Annotated[
        str, Argument(metavar="RUN", help="A run's id, the beginning of it, or `latest`.", show_default=False)
    ] = "latest",
    rank: Annotated[int | None, Option("--rank", metavar="N", help="Only this rank.")] = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Show the stack of each process of a run, even a hung one.

    The processes go on as they were. It uses py-spy if that is installed, and Python's own signal handler if not.
    In a container of a cluster: python -m drivetrain.training.launch.processes.stacks, after kubectl exec or, with
    SageMaker's remote debugging, aws ssm start-session --target sagemaker-training-job:JOB_algo-1.

    \b
    Examples:
      drivetrain attach
      drivetrain attach latest --rank 1
    """
    from drivetrain.run_store.reader import Ledger
    from drivetrain.training.launch.processes.stacks import ranks_with, stack_of

    with Ledger(local_home(home)) as ledger:
        row = ledger.execution(run)
    found = ranks_with(f"/{row.id}/")
    if not found:
        state = "it has ended" if row.status != "Executing" else "none of its steps has started processes of ours"
        raise UserError(f"Run {row.id} has no process on this machine: {state}.")
    chosen = [process for process in found if rank in (None, process.rank)]
    if not chosen:
        there = ", ".join(str(process.rank) for process in found)
        raise UserError(f"--rank {rank}: run {row.id} has no such rank on this machine. Allowed: {there}.")
    stacks = [(process, stack_of(process)) for process in chosen]
    if as_json:
        say_json([{"rank": process.rank, "pid": process.pid, "stack": stack} for process, stack in stacks])
        return
    say("\n\n".join(f"rank {process.rank} (process {process.pid})\n{stack}" for process, stack in stacks))
