"""In kfp's environment: the same steps that do nothing under kfp.local. `python kfp_chain.py 20 default|bare`"""

import sys

from kfp import dsl, local

# By default kfp.local asks pip in every step whether kfp is installed.
BARE = {"install_kfp_package": False} if sys.argv[2] == "bare" else {}


@dsl.component(**BARE)
def nothing():
    pass


@dsl.pipeline
def chain():
    previous = None
    for _ in range(int(sys.argv[1])):
        task = nothing()
        if previous is not None:
            task.after(previous)
        previous = task


if __name__ == "__main__":
    local.init(local.SubprocessRunner(use_venv=False))
    chain()
