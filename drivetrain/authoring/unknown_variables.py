"""Variables of the environment that were probably meant for a setting."""

from __future__ import annotations

import warnings
from collections.abc import Collection
from difflib import get_close_matches

from drivetrain.base.errors import Notice

# Those that the package reads elsewhere, beside RESERVED_ENVIRONMENT: no slips, however near a setting's name is.
_OURS = frozenset(
    (
        *("complete", "copies", "decoded_cache", "decoded_cache_mib", "deepspeed_kernels", "evidence", "execution"),
        *("fresh", "job", "kubernetes_api", "local_data", "mask", "node_folder", "object_store", "options"),
        *("parent_pid", "pipeline", "rank_hosts", "ranks_folder", "registry", "service_account", "sha256"),
        *("sources", "spark_settings", "start", "task", "task_logs", "task_reports", "termination_message"),
        *("unpacked", "unpacked_code"),
    )
)


def warn_of_slip(variable: str, name: str, settings: Collection[str]) -> None:
    """Say that a variable is ignored whose name is nearly a setting's; another pipeline may have one of that name.

    Args:
        name: what the variable would set.
    """
    close = [] if name in _OURS else get_close_matches(name, settings, 1, 0.8)
    if close:
        meant = variable.upper().replace(name.upper(), close[0].upper(), 1)
        warnings.warn(
            f"{variable} is ignored: this pipeline has no setting {name!r}. Did you mean {meant}?", Notice, stacklevel=2
        )
