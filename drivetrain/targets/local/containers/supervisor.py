"""Start one host of a job and end all that it started: `python -I -S supervisor.py`, the job arrives on stdin.

This file only finds its neighbours: as a script it is compiled at every start, they are not. See supervision.py.
`--probe` prints what this kernel allows.
"""

import os
import sys

# At the end of the path: nothing in this folder may hide a module of the standard library.
sys.path.append(os.path.dirname(os.path.abspath(__file__)))

import namespaces
import supervision

if __name__ == "__main__":
    code = namespaces.probe() if sys.argv[1:] == ["--probe"] else supervision.main()
    sys.stdout.flush()
    os._exit(code)  # nothing is left to be tidied up
