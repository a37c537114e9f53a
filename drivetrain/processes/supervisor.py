"""Start one host of a job and end all that it started: `python -I -S supervisor.py`, the job arrives on stdin.

This file only finds its neighbours: as a script it is compiled at every start, they are not. See supervision.py.
`--probe` prints what this kernel allows. `--serve MODULE,...` imports these, and then each fork of it is a supervisor
(fork_server.py).
"""

import os
import sys

# At the end of the path: nothing in this folder may hide a module of the standard library.
sys.path.append(os.path.dirname(os.path.abspath(__file__)))

import become
import namespaces
import supervision


def _main() -> int:
    if sys.argv[1:] == ["--probe"]:
        return namespaces.probe()
    if sys.argv[1:2] == ["--serve"]:
        import fork_server

        return supervision.main(fork_server.serve(sys.argv[2].split(",")))
    return supervision.main(supervision.watch_parent())


if __name__ == "__main__":
    try:
        code = _main()
    except become.Become as program:
        command = program
    else:
        sys.stdout.flush()
        os._exit(code)  # nothing is left to be tidied up
    become.run(command)  # this process is the command now, and ends as Python does
