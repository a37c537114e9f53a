"""TensorFlow's errors in one line, as its 2.21 writes them: no memory, a peer that is gone, numbers that are none."""

from __future__ import annotations

import pytest

from drivetrain.training.launch.processes import failure
from drivetrain.training.launch.processes.failure import Failure, exit_code

NO_MEMORY = (
    "{{function_node __inference_<lambda>_11}} OOM when allocating tensor with shape[4194304,4194304] and type float "
    "on /job:localhost/replica:0/task:0/device:CPU:0 by allocator cpu\n\t [[{{node random_uniform/RandomUniform}}]]\n"
    "Hint: If you want to see a list of allocated tensors when OOM happens, add report_tensor_allocations_upon_oom to "
    "RunOptions for current allocation info.\n [Op:__inference_<lambda>_11]"
)
NOT_A_NUMBER = (
    "{{function_node __inference_<lambda>_21}} the loss : Tensor had NaN values\n\t [[{{node CheckNumerics}}]] "
    "[Op:__inference_<lambda>_21]"
)
LOST = (
    "Graph execution error:\n\nDetected at node CollectiveReduceV2_1 defined at (most recent call last):\n"
    '  File "train.py", line 167, in take_step\n\nCollective ops is aborted by: failed to connect to all addresses; '
    "last error: UNKNOWN: ipv4:127.0.0.1:20001: Failed to connect to remote host: Connection refused\n"
    "The error could be from a previous operation. Restart your program to reset.\n"
    "\t [[{{node CollectiveReduceV2_1}}]] [Op:__inference__distributed_step_15245]"
)


def error(name: str, text: str) -> Exception:
    kind = type(name, (Exception,), {"__module__": "tensorflow.python.framework.errors_impl"})
    return kind(text)


@pytest.mark.parametrize(
    ("given", "kind", "summary"),
    [
        (
            error("ResourceExhaustedError", NO_MEMORY),
            "program",
            "out of memory: OOM when allocating tensor with shape[4194304,4194304] and type float on "
            "/job:localhost/replica:0/task:0/device:CPU:0 by allocator cpu. Lower global_batch, or give accumulation, "
            "or a machine with more memory.",
        ),
        (
            error("InvalidArgumentError", NOT_A_NUMBER),
            "program",
            "InvalidArgumentError: the loss : Tensor had NaN values",
        ),
        (
            error("UnavailableError", LOST),
            "peer",
            "UnavailableError: Collective ops is aborted by: failed to connect to all addresses; last error: UNKNOWN: "
            "ipv4:127.0.0.1:20001: Failed to connect to remote host: Connection refused",
        ),
        (error("AbortedError", "Collective ops is aborted by: Socket closed"), "peer", "AbortedError: Collective ops"),
    ],
)
def test_the_reason_is_one_line(given: Exception, kind: str, summary: str) -> None:
    found, said = failure._classified(given)
    assert found == kind and said.startswith(summary) and "\n" not in said
    assert exit_code(Failure(0, found, said)) == (failure.RETRY if kind == "peer" else failure.FAILED)


def test_errors_of_others_are_as_they_were() -> None:
    other = type("UnavailableError", (Exception,), {"__module__": "somebody"})("gone")
    assert failure._classified(other) == ("program", "UnavailableError: gone")
