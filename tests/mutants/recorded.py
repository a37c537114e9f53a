"""The recorded mutations: what a tool or a tired engineer would do to the modules that matter most.

Each is noticed by the tests beside it, many by one test alone. No test is deleted whose removal loses one of them.
Where code has moved, mend the text to find; where the mistake can no longer be made, replace it by one that can.
"""

from __future__ import annotations

from tests.mutants.mutant import Mutant


def _of(file: str, tests: tuple[str, ...], *changes: tuple[str, str, str]) -> tuple[Mutant, ...]:
    """Mutations of a file: name, text to find, replacement; `tests` lie below tests/unit."""
    found = tuple(f"tests/unit/{name}" for name in tests)
    return tuple(Mutant(name, file, find, replace, found) for name, find, replace in changes)


MUTANTS: tuple[Mutant, ...] = (
    # What a step does to the weights, where all ranks would agree on the mistake.
    *_of(
        "drivetrain/training/torch/average.py",
        ("training/torch/test_average.py",),
        ("average: the two parts are swapped", "            1.0 - self.decay,\n", "            self.decay,\n"),
        ("average: the model keeps the averages", "            held.copy_(kept)\n", "            pass\n"),
    ),
    *_of(
        "drivetrain/training/torch/gradients.py",
        ("training/torch/test_gradients.py",),
        (
            "gradients: clipped 1 % too long",
            "torch._foreach_mul_(gradients, factor)",
            "torch._foreach_mul_(gradients, factor * 1.01)",
        ),
        (
            "gradients: one is left as it was",
            "torch._foreach_mul_(gradients, factor)",
            "torch._foreach_mul_(gradients[1:] or gradients, factor)",
        ),
    ),
    # Who is sent a signal when a run is to stop.
    *_of(
        "drivetrain/run_store/stopping.py",
        ("run_store/test_stopping.py",),
        ("stopping: a number of another machine is a process here", "if not _has_open(pid, lock):", "if False:"),
        ("stopping: a program that would die of it is asked", "if not _handles(pid):", "if False:"),
    ),
    # What a task does with the nodes of its training: one TrainJob at a time, none left, the reason of the right one.
    *_of(
        "drivetrain/steps/kubeflow/nodes.py",
        ("steps/kubeflow/test_nodes.py",),
        ("nodes: the one that is there is not found", "max(there, key=attempt_of, default=None)", "None"),
        (
            "nodes: a stopped task leaves its TrainJob",
            '        self._delete_all(f"the task was',
            '        str(f"the task was',
        ),
        ("nodes: a moved task deletes its TrainJob", "if OwnPod(self.api).is_taken():", "if False:"),
        ("nodes: the next is made beside pods of the last", "LOOKS = 2", "LOOKS = 1"),
        ("nodes: pods that a queue took away are a failure", "if is_suspended(job):  # its", "if False:  # its"),
        ("nodes: a lost pod is not missed", "if uid not in there and not has_ended(pod)", "if False"),
        ("nodes: what has failed is never deleted", "if not again and ended is not None and (", "if not again or ("),
        ("nodes: nobody waits for a start to end", "elif waited >= float(most):", "elif False:"),
    ),
    *_of(
        "drivetrain/steps/kubeflow/reasons.py",
        ("steps/kubeflow/test_nodes.py",),
        (
            "reasons: who lost its peer comes first",
            'return end.kind != "failed", str(',
            'return end.kind == "failed", str(',
        ),
        ("reasons: a container that is restarted goes on", 'if status.get("restartCount") and last', "if False"),
        (
            "reasons: time that is up is an interruption",
            'if said is not None and said.get("reason") == "DeadlineExceeded":',
            "if False:",
        ),
        ("reasons: out of memory is an interruption", 'if ended.get("reason") == "OOMKilled":', "if False:"),
    ),
    *_of(
        "drivetrain/steps/kubeflow/pod_log.py",
        ("steps/kubeflow/test_cluster_api.py",),
        ("pod log: lines come twice after a break", "if stamp == known and left_out:", "if False:"),
    ),
    # What an administrator signs: rights, traffic and pods on a cluster; and that no file of theirs is lost.
    *_of(
        "infra/kubeflow/manifests.py",
        ("infra/kubeflow/test_manifests.py",),
        ("folder: files of others are overwritten", "if name in authors and name not in ours:", "if False:"),
        ("folder: an edited file counts as ours", ' or header["sha256"] != _sha256(text[header.end() :])', ""),
        ("folder: what is not needed any more stays", "        (folder / name).unlink()\n", "        pass\n"),
    ),
    *_of(
        "infra/kubeflow/access.py",
        ("infra/kubeflow/test_access.py",),
        ("access: every ConfigMap can be read", ', names=("kfp-launcher",)', ""),
        (
            "access: one node may make TrainJobs",
            "TRAIN_JOB if needs.makes_train_jobs else ()",
            "TRAIN_JOB",
        ),
        ("access: the binding is of another account", '"name": account,', '"name": name_of(needs, part),'),
    ),
    *_of(
        "drivetrain/steps/kubeflow/cluster_api.py",
        ("infra/kubeflow/test_access.py",),
        ("access: TrainJobs cannot be deleted", '("create", "delete", "get", "list")', '("create", "get", "list")'),
    ),
    *_of(
        "infra/kubeflow/network.py",
        ("infra/kubeflow/test_network.py",),
        (
            "network: the node's credentials are reached",
            '{"cidr": cidr, "except": [but]} for cidr, but in',
            '{"cidr": cidr} for cidr, but in',
        ),
        ("network: no ingress rule is no policy", "if ingress is not None:", "if ingress:"),
        ("network: a policy is about all pods", '"podSelector": selector', '"podSelector": {}'),
        (
            "network: an address by number is a name",
            "        found = ip_address(host)\n",
            "        raise ValueError(host)\n",
        ),
    ),
    *_of(
        "infra/kubeflow/pods.py",
        ("infra/kubeflow/test_manifests.py",),
        ("pods: root is allowed", '"runAsNonRoot": True', '"runAsNonRoot": False'),
        (
            "pods: every pod has a token",
            '"automountServiceAccountToken": False',
            '"automountServiceAccountToken": True',
        ),
    ),
    *_of(
        "drivetrain/targets/kubeflow/compile/mounts.py",
        ("infra/kubeflow/test_manifests.py",),
        (
            "pods: a Secret's value is written",
            '"valueFrom": {"secretKeyRef": {"name": secret, "key": key}}',
            '"value": f"{secret}/{key}"',
        ),
    ),
    *_of(
        "infra/kubeflow/runtimes.py",
        ("infra/kubeflow/test_manifests.py",),
        ("runtimes: a lost pod is started again alone", '"backoffLimit": 0', '"backoffLimit": 6'),
        ("runtimes: a pod has no time to save", "GRACE_SECONDS = 120", "GRACE_SECONDS = 30"),
    ),
    # Which sample comes when.
    *_of(
        "drivetrain/training/input_pipeline/cursor.py",
        ("training/input_pipeline/test_cursor.py",),
        ("cursor: an order computed ahead is used in the next epoch", "if epoch != held_epoch or start", "if start"),
        (
            "cursor: a batch runs over what was computed ahead",
            "or stop > first + len(rows):",
            "or stop > first + len(rows) + 1:",
        ),
        (
            "cursor: the last, smaller batch is no step",
            "return -(-self.num_samples // self.global_batch)",
            "return self.num_samples // self.global_batch",
        ),
        (
            "cursor: a dropped batch shifts the next epoch",
            "epoch, start = divmod(consumed, self.num_samples)",
            "epoch, start = divmod(consumed, self.num_rows)",
        ),
        ("cursor: the same order in each epoch", 'key=f"{self.seed}/{epoch}")', 'key=f"{self.seed}")'),
        (
            "cursor: drop_last refuses one whole batch",
            "if drop_last and num_rows < global_batch",
            "if drop_last and num_rows <= global_batch",
        ),
        (
            "cursor: the rest of a batch goes to no rank",
            "len(batch) * (rank + 1) // world_size]",
            "len(batch) * rank // world_size + len(batch) // world_size]",
        ),
        (
            "cursor: a sample that does not exist",
            "np.flatnonzero(result >= num_samples)",
            "np.flatnonzero(result > num_samples)",
        ),
        (
            "cursor: a sample that does not exist, after a second round",
            "outside[again >= num_samples]",
            "outside[again > num_samples]",
        ),
        ("cursor: another order than the last version's", "_ROUNDS = 8", "_ROUNDS = 7"),
        (
            "cursor: the same seeds in each epoch",
            'rows.astype(np.uint64), f"{self.seed}/{epoch}/seeds"',
            'rows.astype(np.uint64), f"{self.seed}/seeds"',
        ),
        (
            "cursor: what was computed ahead can be changed",
            "rows.flags.writeable = False",
            "rows.flags.writeable = True",
        ),
    ),
    *_of(
        "drivetrain/training/input_pipeline/cursor.py",
        ("training/input_pipeline/test_cursor_kinds.py",),
        (
            "cursor: a sample drawn twice looks alike",
            'return _hash(positions, f"{self.seed}/{epoch}/seeds")',
            'return _hash(rows.astype(np.uint64), f"{self.seed}/{epoch}/seeds")',
        ),
        ("cursor: a weight of 0 is refused", "(table >= 0)", "(table > 0)"),
        ("cursor: frequent classes are drawn more often", "1.0 / counts[numbers]", "1.0 * counts[numbers]"),
        (
            "cursor: files keep the order of the first epoch",
            "if files is None or files[0] != epoch:",
            "if files is None:",
        ),
        (
            "cursor: the last window is taken for a whole one",
            "size = min(self.window, self.num_rows - first)",
            "size = self.window",
        ),
        ("cursor: all windows are shuffled alike", '/window/{window}"', '/window"'),
        (
            "cursor: the first sample of a file is taken for the last of another",
            'np.searchsorted(starts, streamed, side="right")',
            'np.searchsorted(starts, streamed, side="left")',
        ),
    ),
    # Checkpoints: the protocol of a commit.
    *_of(
        "drivetrain/training/checkpointing/store/store.py",
        (
            "training/checkpointing/store/test_commits.py",
            "training/checkpointing/store/test_damage.py",
            "training/checkpointing/store/test_folders.py",
            "training/checkpointing/store/test_what_stays.py",
        ),
        ("store: the oldest saving of a step is loaded", "return found[-1]", "return found[0]"),
        (
            "store: begins without the right to write",
            "self._check_fence()\n        names = self.place.names()\n        taken",
            "names = self.place.names()\n        taken",
        ),
        ("store: a term has no folder of its own", "(self._fence.term if", "(0 if"),
        ("store: saves into what is committed", "*(1 + _parse(folder)[1] for", "*(_parse(folder)[1] for"),
        (
            "store: commits after it has lost the right",
            "self._check_fence()\n        self.place.create(",
            "self.place.create(",
        ),
        (
            "store: commits though a file is not whole",
            "self._check_sizes(folder, manifest.files, self.place.names(folder))",
            "...",
        ),
        ("store: what was committed is not known to be good", "self._good.add(manifest.step)", "..."),
        ("store: one file read vouches for all", "if names is None:\n            self.vouch(step)", "self.vouch(step)"),
        ("store: what was set aside still counts as good", "self._good.discard(step)", "..."),
        ("store: the newest in quarantine goes", "[:-_QUARANTINED_OF_A_STEP]", "[_QUARANTINED_OF_A_STEP:]"),
        (
            "store: leftovers in a good folder stay",
            "if top not in current or is_leftover(name):",
            "if top not in current:",
        ),
        ("store: somebody's try for the lock is cleaned away", " and not top.startswith(LOCK_FILE):", ":"),
        (
            "store: incomplete ones go while none is good",
            "(step for step in whole if step in self._good), default=-1)",
            "(step for step in whole), default=-1)",
        ),
        (
            "store: removes what is being read",
            "if not self.place.retire(folder):\n            return False\n",
            "self.place.retire(folder)\n",
        ),
        ("store: the manifest of a later step is taken", "if manifest.step != step:", "if manifest.step < step:"),
        ("store: a checksum is not looked at", "if checksum != entry.crc32:", "if checksum != checksum:"),
        ("store: the tenth saving comes before the second", "sorted(folders, key=_parse)", "sorted(folders)"),
        (
            "store: hosts agree on another folder than the last",
            "folder = max(folders, key=_parse)",
            "folder = min(folders, key=_parse)",
        ),
        ("store: a disk's word for damage is a failure like any", "not in DISK_SAYS_DAMAGED", "in DISK_SAYS_DAMAGED"),
        ("store: the files go before the manifest", "if manifest in names:", "if manifest not in names:"),
    ),
    *_of(
        "drivetrain/training/checkpointing/places/folder.py",
        ("training/checkpointing/places/test_folder.py",),
        (
            "folder: the name of a file is not durable",
            "make_durable(path.parent)\n        return checksum",
            "return checksum",
        ),
        (
            "folder: the name of a manifest is not durable",
            "partial.unlink(missing_ok=True)\n        make_durable(path.parent)",
            "partial.unlink(missing_ok=True)",
        ),
        (
            "folder: a moved folder may be at both places",
            "make_durable(target.parent)\n        make_durable(source.parent)",
            "make_durable(target.parent)",
        ),
        (
            "folder: a new folder is not durable",
            "path.mkdir(exist_ok=True)\n            make_durable(path.parent)",
            "path.mkdir(exist_ok=True)",
        ),
        (
            "folder: a removal is not durable",
            "                make_durable(folder)\n                if folder == self.root",
            "                if folder == self.root",
        ),
        (
            "folder: a retired manifest comes back",
            "        make_durable(path.parent)\n        return True",
            "        return True",
        ),
        (
            "folder: the second to create wins",
            "os.link(partial, path, follow_symlinks=False)",
            "os.rename(partial, path)",
        ),
        ("folder: swaps what only begins as expected", "len(expected) + 1, 0)", "len(expected), 0)"),
        ("folder: the end of a longer content stays", "            os.ftruncate(descriptor, len(data))\n", ""),
        (
            "folder: a manifest is retired under its readers",
            "fcntl.LOCK_EX | fcntl.LOCK_NB",
            "fcntl.LOCK_SH | fcntl.LOCK_NB",
        ),
        (
            "folder: a checksum of the last piece alone",
            "zlib.crc32(room[:count], checksum)",
            "zlib.crc32(room[:count])",
        ),
    ),
    *_of(
        "drivetrain/training/checkpointing/store/direct_io.py",
        (
            "training/checkpointing/store/test_direct_io.py",
            "training/checkpointing/places/test_folder.py",
        ),
        ("direct writes: a file's content is not durable", "            os.fsync(descriptor)\n", ""),
        (
            "direct writes: half a file stays after an error",
            "        path.unlink(missing_ok=True)\n        raise",
            "        raise",
        ),
    ),
    *_of(
        "drivetrain/training/checkpointing/store/lock.py",
        ("training/checkpointing/store/test_lock.py",),
        ("lock: anybody's lock is this one's", "found.id == mine.id and not", "not"),
        ("lock: who takes over by the beat keeps the term", "+ (not self.holds_nothing())", "+ self.holds_nothing()"),
        (
            "lock: a stopped process is taken for dead",
            "(watch.could_not_tell() and watch.unchanged_s()",
            "(watch.unchanged_s()",
        ),
        (
            "lock: a copy of a lock holds the place",
            "(holder.mark and holder.mark != self._place.mark(LOCK_FILE))",
            "False",
        ),
    ),
    *_of(
        "drivetrain/base/process_identity.py",
        ("training/checkpointing/store/test_lock.py",),
        ("process: a zombie is alive", '(b"Z", b"X")', '(b"X",)'),
    ),
    *_of(
        "drivetrain/training/checkpointing/store/manifest.py",
        ("training/checkpointing/store/test_manifest.py",),
        ("manifest: a later format is read", "> FORMAT:", "> FORMAT + 1:"),
        ("manifest: a file outside the checkpoint", '("", ".", "..")', '("", ".")'),
        ("manifest: a checksum of 33 bits", "file.crc32 >= 2**32", "file.crc32 > 2**32"),
        ("manifest: true is a number", "type(value) is int and", "isinstance(value, int) and"),
        ("manifest: an agent's mark is a file of the checkpoint", '".sagemaker-uploaded", ', ""),
    ),
    *_of(
        "drivetrain/training/checkpointing/store/retention.py",
        ("training/checkpointing/store/test_retention.py",),
        ("retention: the newest good one goes", "if step >= newest_good)", "if step > newest_good)"),
        ("retention: of equal ones the earlier stays", "(sign * known[step], step)", "(sign * known[step], -step)"),
        ("retention: an hour is more than an hour", "abs(at - last) >=", "abs(at - last) >"),
        ("retention: true is a metric of 1", "if is_number(value) else", "if isinstance(value, int | float) else"),
    ),
    # Metrics: sums that are exact.
    *_of(
        "drivetrain/training/metric_states/numbers/exact_sum.py",
        ("training/metric_states/numbers/test_exact_sum.py",),
        (
            "exact sum: the smallest numbers are taken for normal ones",
            "(exponents > 0).astype",
            "(exponents >= 0).astype",
        ),
        ("exact sum: the last limb is not carried into", "range(cells.shape[-1] - 1)", "range(cells.shape[-1] - 2)"),
        (
            "exact sum: the largest factor is let through",
            "if not largest < _LARGEST_FACTOR",
            "if not largest <= _LARGEST_FACTOR",
        ),
        (
            "exact sum: the error of a product that is no square",
            "error += first_low * second_high",
            "error += first_high * second_low",
        ),
    ),
    *_of(
        "drivetrain/training/metric_states/accumulator.py",
        ("training/metric_states/test_accumulator.py",),
        ("accumulator: the last error is told", "self._failure = self._failure or message", "self._failure = message"),
        (
            "accumulator: a replicate's value in another's place",
            "[None] * (number - 1 - len(column))",
            "[None] * (number - len(column))",
        ),
        (
            "accumulator: undefined replicates at the end are left out",
            "(*column, *[None] * (len(sizes) - len(column)))",
            "(*column,)",
        ),
        ("accumulator: two results of a name in one replicate", "if result not in seen and not", "if not"),
        ("accumulator: the last of two results of a name", "elif result not in found:", "else:"),
        (
            "accumulator: a result is there and undefined",
            "why in undefined.items() if name not in found}",
            "why in undefined.items()}",
        ),
        ("accumulator: the smallest bound of the replicates", "if value.bound > bounds", "if value.bound < bounds"),
    ),
    # The local runner: values that are known while it runs, and which step is next.
    *_of(
        "drivetrain/targets/sagemaker/document/expressions.py",
        ("targets/sagemaker/document/test_expressions.py",),
        ("expressions: the longest text is refused", "> MAX_JOINED:", ">= MAX_JOINED:"),
        (
            "expressions: what joins texts takes no room",
            "sum(map(len, parts)) + len(on) * len(parts) >",
            "sum(map(len, parts)) >",
        ),
        (
            "expressions: a key with a dollar is not read as it is written",
            " and not _has_dollar(content) else",
            " else",
        ),
        (
            "expressions: one key without a dollar hides the others",
            'any(key.startswith("$")',
            'all(key.startswith("$")',
        ),
        ("expressions: true as Python spells it", 'return "true" if value else "false"', "return str(value)"),
        ("expressions: an object that begins like an expression", "if len(value) == 1:", "if len(value) >= 1:"),
        (
            "expressions: only the last value of an object",
            "changed if changed is not None else dict(value)",
            "dict(value)",
        ),
        (
            "expressions: only the last value of a list",
            "replaced if replaced is not None else list(value)",
            "list(value)",
        ),
        (
            "expressions: what a function refers to",
            "functions.append(key)\n",
            "functions.append(key)\n                return\n",
        ),
        (
            "expressions: a value below a fact of the execution",
            'root in ("Parameters", "Execution") and',
            'root in ("Parameters",) and',
        ),
        ("expressions: JSONPath keeps its dot", 'path[1:].removeprefix(".")', "path[1:]"),
        ("expressions: joined by a comma unless said", 'operand.get("On", "")', 'operand.get("On", ",")'),
    ),
    *_of(
        "drivetrain/targets/sagemaker/document/__init__.py",
        ("targets/sagemaker/document/test_paths.py",),
        ("paths: one behind the end of a list", "segment < len(value)", "segment <= len(value)"),
    ),
    *_of(
        "drivetrain/base/json_text.py",
        ("targets/sagemaker/document/test_paths.py",),
        ("paths: from the first key in brackets to the last", "\\['(.*?)'\\]", "\\['(.*)'\\]"),
    ),
    *_of(
        "drivetrain/targets/sagemaker/document/conditions.py",
        ("targets/sagemaker/document/test_conditions.py",),
        ("conditions: one of a list is enough", "return all(evaluate(item", "return any(evaluate(item"),
        ("conditions: at least is more than", '(">=", operator.ge)', '(">=", operator.gt)'),
        ("conditions: true is more than false", ' or (kinds[0] == "truth value" and kind != "Equals")', ""),
        ("conditions: true equals 1", '    if isinstance(value, bool):\n        return "truth value"\n', ""),
    ),
    # What a run starts from: which sources are looked at, when nothing is new, what follows, what is trusted.
    *_of(
        "drivetrain/triggers/looking.py",
        ("triggers/test_looking.py",),
        ("looking: a pipeline that nothing starts has looks", "    if not pipeline.triggers:\n", "    if False:\n"),
        ("looking: what is fixed is looked at", "if name not in step.fixed and (", "if ("),
        (
            "looking: a query without a watermark is cached",
            '("query" in asked and "watermark" not in asked) or not',
            "not",
        ),
        ("looking: the last source stands for all", '("" if number == 1 else f"_{number}")', '""'),
    ),
    *_of(
        "drivetrain/targets/sagemaker/run/execution/nothing_new.py",
        ("targets/sagemaker/run/test_looks.py",),
        ("nothing new: whatever the sources have", "seen.get(name) != digest for", "False for"),
        ("nothing new: since a run that failed", 'row.status == "Succeeded"\n            and ', ""),
        ("nothing new: to a step that may read anything", "step.name in looks or _is_covered(step)", "step"),
        ("nothing new: though results are gone", "if any(cache.damaged(", "if False and any(cache.damaged("),
        ("nothing new: of rows of an earlier look", "if EARLIER_LOOK in row.why:", "if False:"),
        ("nothing new: since a fresh run", "row.parameters != self.execution.parameters", "False"),
    ),
    *_of(
        "drivetrain/targets/kubeflow/deploy/executions/following.py",
        ("targets/kubeflow/deploy/test_logs.py",),
        ("starting point: of the first attempt", "step.programs[0][-1]).pending", "step.programs[0][0]).pending"),
        (
            "starting point: what it has not said yet is kept",
            "if not found and not attempt.is_over and",
            "if False and",
        ),
        ("starting point: of one iteration for all", "len(step.programs) != 1", "not step.programs"),
    ),
    *_of(
        "drivetrain/studio/following.py",
        ("studio/test_following.py",),
        ("following: what refers to a step keeps its old name", "_referring(step, old, new) for", "step for"),
        ("following: a copy keeps what was deployed", "return value == text or value in texts", "return value == text"),
        ("following: an edge keeps its old name", '{**entry, "Step": new} if', "entry if"),
        (
            "following: what begins alike is renamed, too",
            '(?=[.\\[]|$)", lambda m: f"{m[1]}.{new}", text)',
            '", lambda m: f"{m[1]}.{new}", text)',
        ),
    ),
    *_of(
        "drivetrain/run_store/verifying.py",
        ("run_store/test_verifying.py",),
        ("verifying: what is damaged is trusted still", "        _distrust(home, rotten)\n", "        pass\n"),
        ("verifying: a fresh start's damage stays for ever", "if (is_later or _is_fresh(fields))", "if is_later"),
        ("verifying: a run has made its own output again", " AND other.execution != ran.execution", ""),
        ("verifying: a damaged model touches no version", "in versions if _is_of(uri, version.artifact)", "in ()"),
    ),
    *_of(
        "drivetrain/targets/sagemaker/run/execution/scheduler.py",
        ("targets/sagemaker/run/execution/test_scheduler.py",),
        ("scheduler: any end is no success", '("Failed", "Stopped", *DONE)', '("Failed", "Stopped")'),
        ("scheduler: a trigger wants its step to succeed", "needed - triggered - conditions", "needed - conditions"),
        (
            "scheduler: one iteration too many at a time",
            "len(loop.offered) < loop.most",
            "len(loop.offered) <= loop.most",
        ),
        ("scheduler: any failure ends the execution", 'if self._steps[name].type == "Fail" and status', "if status"),
        ("scheduler: an iteration put back counts twice", "            loop.running.discard(step.name)\n", ""),
        (
            "scheduler: an iteration's failure is told for its loop's",
            'status == "Failed" and name not in self._parents]',
            'status == "Failed"]',
        ),
        ("scheduler: steps in the order of their needs", "        runnable.sort(key=self._order.__getitem__)\n", ""),
        ("scheduler: what the cache gave is not done", '("Succeeded", "Cached")', '("Succeeded",)'),
    ),
    # Studio: edits merged into the code.
    *_of(
        "drivetrain/studio/merge.py",
        ("studio/test_merge.py",),
        ("merge: what the code moved is edited", " and not _moved_about(change, base, ours)", ""),
        ("merge: the branch of a refused step comes", "take.get(places.text(step)) if is_orphan else None)", "None)"),
        ("merge: a step that the code took out counts as new", "for parts in (base, ours))", "for parts in (ours,))"),
        (
            "merge: a step that the code added, too, counts as new",
            "for parts in (base, ours))",
            "for parts in (base,))",
        ),
        (
            "merge: what was pulled is edited again",
            "put(base, edit.place, edit.new)",
            "put(base, edit.place, edit.old)",
        ),
        ("merge: a conflict about all steps", "place[: max(depth, 2)]", "place[:depth]"),
        (
            "merge: a list of steps that is gone",
            "whole[0] == places.STEPS and ours.steps is None",
            "whole[0] == places.STEPS and ours.steps is not None",
        ),
        (
            "merge: a list of parameters that is gone",
            "whole[0] == places.PARAMETERS and ours.parameters is None",
            "whole[0] == places.PARAMETERS and ours.parameters is not None",
        ),
        (
            "merge: an entry without a name among others is taken for the same",
            "segment.count > 1:",
            "segment.count > 2:",
        ),
        ("merge: a step that is there gets a second branch", " and conflict.code is ABSENT", ""),
    ),
    # Rules of a specification.
    *_of(
        "drivetrain/rules/graph_rules.py",
        ("rules/test_rules.py",),
        (
            "rules: a value of 1,024 characters",
            "len(value) > quotas.MAX_PARAMETER_VALUE_CHARACTERS:",
            "len(value) >= quotas.MAX_PARAMETER_VALUE_CHARACTERS:",
        ),
        (
            "rules: a fraction fits a whole number",
            'given == "Integer" and wanted == "Float"',
            'given == "Float" and wanted == "Integer"',
        ),
        (
            "rules: a step reads from a branch below its own",
            "if here[: len(there)] == there:",
            "if there[: len(here)] == here:",
        ),
        ("rules: texts cannot be equal", "elif ordered and a not in NUMBERS:", "elif a not in NUMBERS:"),
    ),
    *_of(
        "drivetrain/targets/target.py",
        ("targets/test_fresh.py",),
        ("fresh: declared though nothing is cached", "(step.cache or pipeline.cache).enabled)", "True)"),
    ),
    *_of(
        "drivetrain/spec/pipeline.py",
        ("targets/test_fresh.py",),
        ("fresh: steps of loops are not told", 'else ("body",)', "else ()"),
    ),
    *_of(
        "drivetrain/targets/sagemaker/compile/tuning.py",
        ("targets/test_fresh.py",),
        ("fresh: the key of a tuning is the same", "FRESH_HYPERPARAMETER: job", "# FRESH_HYPERPARAMETER: job"),
    ),
    *_of(
        "drivetrain/run_store/objects.py",
        ("targets/sagemaker/run/test_fresh.py",),
        ("fresh: times vouch for an upload", "and not verify and", "and"),
    ),
    *_of(
        "drivetrain/targets/sagemaker/rules.py",
        ("rules/test_rules.py",),
        ("rules: 50 tags", "tags)) > quotas.MAX_TAGS:", "tags)) >= quotas.MAX_TAGS:"),
        ("rules: 50 tags of a step", "len(step.tags) > quotas.MAX_TAGS:", "len(step.tags) >= quotas.MAX_TAGS:"),
        ("rules: 200 parameters", "parameters)) > most:", "parameters)) >= most:"),
        ("rules: an argument of 256 characters", "len(value) > limit:", "len(value) >= limit:"),
        ("rules: 100 arguments", "count > quotas.MAX_ARGUMENTS:", "count >= quotas.MAX_ARGUMENTS:"),
        (
            "rules: the arguments before the others are not counted",
            "len(step.arguments) + 3\n",
            "len(step.arguments)\n",
        ),
        ("rules: 100 hyperparameters", "> quotas.MAX_HYPERPARAMETERS:", ">= quotas.MAX_HYPERPARAMETERS:"),
        ("rules: the code takes no channel", "if len(step.inputs) + 1 > most:", "if len(step.inputs) > most:"),
        ("rules: 10 outputs", "> quotas.MAX_PROCESSING_OUTPUTS:", ">= quotas.MAX_PROCESSING_OUTPUTS:"),
        ("rules: nine days", "step.cluster.max_run_seconds > longest:", "step.cluster.max_run_seconds >= longest:"),
    ),
    *_of(
        "drivetrain/rules/job_rules.py",
        ("rules/test_rules.py",),
        (
            "rules: a spot training that waits as long as it runs",
            "spot.max_wait_seconds < step",
            "spot.max_wait_seconds <= step",
        ),
        ("rules: the ARN of a secret is a secret", ' or value.startswith("arn:"):', ":"),
    ),
    *_of(
        "drivetrain/rules/trigger_rules.py",
        ("rules/test_trigger_rules.py",),
        (
            "rules: an upload below what the pipeline writes",
            "own.startswith(watched) or watched.startswith(own)",
            "own.startswith(watched)",
        ),
        ("rules: a schedule that ends as it starts", "read.start >= read.end:", "read.start > read.end:"),
        ("rules: a limit of 30 days", "period > timedelta", "period >= timedelta"),
        (
            "rules: a trigger's value of 1,024 characters",
            "len(value) > quotas.MAX_PARAMETER_VALUE_CHARACTERS:",
            "len(value) >= quotas.MAX_PARAMETER_VALUE_CHARACTERS:",
        ),
        (
            "rules: a group that only an execution knows",
            "isinstance(given, str) else True",
            "isinstance(given, str) else False",
        ),
    ),
    # What a pipeline carries, and what travels.
    *_of(
        "drivetrain/assets/assets.py",
        ("assets/test_assets.py",),
        ("archive: a whole last block is filled up", "bytes(-size % _BLOCK)", "bytes(_BLOCK - size % _BLOCK)"),
        ("archive: a long name runs into the next field", "len(name) > 100 or ", ""),
    ),
    *_of(
        "drivetrain/assets/step_code.py",
        ("assets/test_rooms.py",),
        (
            "rooms: what a room needs stays behind",
            "set(ROOMS[room]) if room in ROOMS else",
            "set() if room in ROOMS else",
        ),
        ("rooms: what loads anything takes what it names", "if any(map(_LOADS_ANY.search, texts)):", "if False:"),
    ),
    *_of(
        "drivetrain/spec/__init__.py",
        ("spec/test_frozen.py",),
        ("spec: infinity is a value", " and not (isinstance(value, float) and not isfinite(value))", ""),
        ("spec: what JSON holds is taken unread", "return self._adapter.validate_python(value)", "return value"),
    ),
    # Permissions, and patterns of events.
    *_of(
        "drivetrain/targets/sagemaker/permissions/policy.py",
        ("targets/sagemaker/permissions/test_policy.py",),
        ("permissions: ? is a character", 'in ("?", text[at])', "== text[at]"),
        ("permissions: the first * takes too little", "resumed += 1", "resumed = at + 1"),
        ("permissions: a colon in a resource's name", 'resource.split(":", 5)', 'resource.split(":")'),
    ),
    *_of(
        "drivetrain/targets/sagemaker/permissions/policy.py",
        ("targets/sagemaker/permissions/test_policy.py",),
        (
            "permissions: two conditions that differ are joined",
            "if len(differing) != 1:",
            "if len(differing) not in (1, 2):",
        ),
        (
            "permissions: what is allowed under a condition covers",
            "and (not other.conditions or other.conditions == statement.conditions)",
            "and True",
        ),
        (
            "permissions: a part covers the whole",
            "any(covers(pattern, resource) for",
            "any(covers(resource, pattern) for",
        ),
    ),
    *_of(
        "drivetrain/targets/sagemaker/permissions/policy.py",
        (
            "targets/sagemaker/permissions/test_policy.py",
            "targets/sagemaker/permissions/test_policies.py",
        ),
        ("permissions: a resource keeps what covers it", "covering(other, one)", "covering(one, other)"),
        (
            "permissions: a pattern with nothing before its wildcard but the same",
            "for end in range(len(one) + 1)",
            "for end in range(1, len(one) + 1)",
        ),
    ),
    *_of(
        "drivetrain/triggers/value_tests.py",
        ("triggers/test_event_pattern.py",),
        ("patterns: beginning and end overlap", "if len(text) < len(first) + len(last) or not", "if not"),
        ("patterns: a piece in the text's end", "text.find(piece, place, end)", "text.find(piece, place)"),
        ("patterns: the largest number", "abs(number) > LARGEST_NUMBER", "abs(number) >= LARGEST_NUMBER"),
    ),
    *_of(
        "drivetrain/triggers/pattern_syntax.py",
        ("triggers/test_event_pattern.py",),
        ("patterns: a range of one number", "not found[0][1] < found[1][1]", "not found[0][1] <= found[1][1]"),
        ("patterns: one alternative is an $or", "len(cast(list[Any], value)) > 1", "len(cast(list[Any], value)) > 0"),
        ("patterns: 2,048 characters", "if size > MAX_CHARACTERS:", "if size >= MAX_CHARACTERS:"),
    ),
    # The decision between two models.
    *_of(
        "drivetrain/decision/deciding.py",
        ("decision/test_deciding.py", "decision/test_sureness.py", "decision/test_budgets.py"),
        ("decision: as good is better", "return gained > 0 and gained >=", "return gained >="),
        ("decision: the margin itself is not enough", "and gained >= policy.margin", "and gained > policy.margin"),
        ("decision: not worse is better by the margin", "and lost <= policy.margin", "and lost <= -policy.margin"),
        (
            "decision: a budget is exceeded",
            "all(each.within for each in self.regressions) and not (",
            "not (",
        ),
        (
            "decision: an undefined slice proves a budget",
            "theirs and unproven(self.candidate, theirs, self.policy)",
            "False",
        ),
        (
            "decision: one floor is enough",
            "return all(floor.met for floor in self.floors)",
            "return not self.floors or any(floor.met for floor in self.floors)",
        ),
        (
            "decision: nothing new is better",
            "self.champion is None and self.registered is None",
            "self.champion is None",
        ),
    ),
    *_of(
        "drivetrain/decision/anchor.py",
        ("decision/test_anchor.py",),
        ("decision: a rejected version is the best one", 'if found.status == "Approved":', "if found:"),
        ("decision: a champion that may be better is the best one", "gained <= 0:", "gained <= -1:"),
        ("decision: rejected ones stay in the history", "earlier[1 - _MOST :]", "numbers[1 - _MOST :]"),
    ),
    *_of(
        "drivetrain/decision/noninferiority.py",
        ("decision/test_noninferiority.py",),
        ("decision: the normal quantile by itself", "STRICTER = 1.055", "STRICTER = 1.0"),
        ("decision: the variance of what was seen", "2 * wins + loss * (1 - loss)", "(won + lost) / of"),
    ),
    *_of(
        "drivetrain/decision/rows.py",
        ("decision/test_rows.py",),
        ("decision: all rows vote on a class", "        of = self._any(form.of, inside)\n", "        of = inside\n"),
        (
            "decision: shares of other rows are counted",
            " or not np.array_equal(ours[1], theirs[1])",
            "",
        ),
        (
            "decision: rows of a key count one by one",
            "    if by_keys:\n        keys, numbers =",
            "    if False:\n        keys, numbers =",
        ),
        (
            "decision: the differences of keys are those of rows",
            "len(keys) / num_rows * beside",
            "len(places) / num_rows * beside",
        ),
        ("decision: other rows are compared", "not np.array_equal(candidate.keys, champion.keys) or ", ""),
    ),
    *_of(
        "drivetrain/training/metric_states/rows.py",
        ("training/metric_states/test_rows.py",),
        ("rows: in the order of the ranks", "found[places] = values", "found[np.sort(places)] = values"),
        ("rows: without a limit", "if size + needed > MOST_BYTES:", "if False:"),
    ),
    *_of(
        "drivetrain/decision/differences.py",
        ("decision/test_deciding.py", "decision/test_sureness.py"),
        (
            "decision: errors of the values count for nothing",
            "return self.estimate.low(level) - self.bound",
            "return self.estimate.low(level)",
        ),
        (
            "decision: the interval's better end",
            "return -self.estimate.high(level)",
            "return -self.estimate.low(level)",
        ),
        (
            "decision: a budget counts nothing against chance",
            "losses.chance(allowed - self.bound)",
            "losses.chance(-self.bound)",
        ),
        (
            "decision: other samples are compared",
            '        ("numbers of samples", candidate.whole.num_samples, champion.whole.num_samples),\n',
            "",
        ),
    ),
    *_of(
        "drivetrain/decision/limits.py",
        ("decision/test_deciding.py", "decision/test_budgets.py"),
        ("decision: a floor by the value's better end", "value.value - value.bound >=", "value.value + value.bound >="),
        (
            "decision: a ceiling by the value's better end",
            "value.value + value.bound <=",
            "value.value - value.bound <=",
        ),
        ("decision: a budget's value proves it", "one.at_most <= one.budget)", "one.loss <= one.budget)"),
        ("decision: a slice of one sample breaks its budget", " or bool(untested)", ""),
        ("decision: a budget that is used up", "within=loss <= limit.amount", "within=loss < limit.amount"),
        ("decision: the champion's error is left out of a loss", "+ ours.bound + theirs.bound", "+ ours.bound"),
        ("decision: the whole test set is a slice", "if name != ALL and (every", "if (every"),
    ),
    *_of(
        "drivetrain/decision/intervals.py",
        ("decision/test_intervals.py", "decision/test_sureness.py"),
        ("decision: every loss is tested alone", "level / (len(chances) - number)", "level"),
        ("decision: normal instead of Student's", "/ left)", ")"),
        ("decision: no row is added to a share", "(won + lost + 2) / rows", "(won + lost) / rows"),
        ("decision: no row is added to a mean", "math.sqrt(squares + 2)", "math.sqrt(squares)"),
        ("decision: skewness is left out", "max(t, _straightened(t, side * self.skewness))", "t"),
        ("decision: skewness the other way round", "_straightened(t, side", "_straightened(t, -side"),
        ("decision: replicates too few by one", "len(found) < FEWEST_REPLICATES", "len(found) <= FEWEST_REPLICATES"),
    ),
    *_of(
        "drivetrain/decision/differences.py",
        ("decision/test_differences.py",),
        ("decision: ten rows are too few", "if rows < fewest:", "if rows <= fewest:"),
        ("decision: fifteen keys do not matter", "if shared and keys < FEWEST_KEYS", "if False"),
        ("decision: keys count as rows", "keys - 1 if shared else None", "None"),
        ("decision: one side of a ranking is enough", "if there < FEWEST_OUTCOMES:", "if there < 1:"),
        ("decision: a key changes one row", "return widest * usual *", "return widest *"),
    ),
    *_of(
        "drivetrain/decision/policy.py",
        ("decision/test_deciding.py", "decision/test_sureness.py"),
        ("decision: nothing is corrected", "max(self.horizon, 2)", "2"),
        (
            "decision: a confidence of one half",
            "if not 0.5 <= self.confidence < 1:",
            "if not 0.5 < self.confidence < 1:",
        ),
        ("decision: no margin", "self.margin >= 0", "self.margin > 0"),
    ),
    # What a lost answer must not do twice on a cluster.
    *_of(
        "drivetrain/targets/kubeflow/deploy/executions/starting.py",
        ("targets/kubeflow/deploy/test_executions.py",),
        (
            "kubeflow: a run whose answer is lost is started again",
            "service.create_run(api, body), begun)",
            "service.create_run(api, body), lambda: None)",
        ),
        (
            "kubeflow: a token is not looked for",
            "run = begun() if request.token else None",
            "run = None",
        ),
    ),
    *_of(
        "drivetrain/targets/kubeflow/deploy/applying.py",
        ("targets/kubeflow/deploy/test_applying.py",),
        ("kubeflow: a lost recurring run is not looked for", "if _is_same(each, body)), None)", "if False), None)"),
    ),
    *_of(
        "drivetrain/deploying/applying.py",
        ("deploying/test_applying.py",),
        ("deploying: what was done is not taken back", "reversed(self._undo):", "self._undo[:0]:"),
        ("deploying: a stale plan is applied", "if plan.state != place.state_of(there):", "if False:"),
        ("deploying: a refusal is left to the plan's file", "if fresh.refusal is not None:", "if plan.refusal:"),
        ("deploying: a fault of ours is told as one of the target's", "isinstance(error, UserError):", "error:"),
    ),
    *_of(
        "drivetrain/targets/kubeflow/deploy/rest.py",
        ("targets/kubeflow/deploy/test_rest.py",),
        ("kubeflow: everything is repeated", "(done and not repeat)", "(done and repeat is None)"),
        ("kubeflow: a wrong address is asked for long", "if self._answered else patience.first_seconds", ""),
    ),
    *_of(
        "drivetrain/targets/kubeflow/schedules.py",
        ("targets/kubeflow/test_schedules.py",),
        ("kubeflow: weekdays count from 1", "day - 1 for day in cron.day_values", "day for day in cron.day_values"),
    ),
    *_of(
        "drivetrain/targets/kubeflow/deploy/starter.py",
        ("targets/kubeflow/deploy/test_starter.py",),
        ("kubeflow: the loop guard knows no execution", "if is_own else None", "if is_own is None else None"),
        (
            "kubeflow: a version decided on between two looks is new only",
            "return None if version.modified_at == version.created_at else",
            "return None if version.modified_at else",
        ),
        (
            "kubeflow: a version approved again between two looks is not seen",
            "if seen.status == version.status and seen.at != version.modified_at:",
            "if seen.status == version.status and seen.at == 0.0:",
        ),
    ),
    # What a cluster is asked to run, and what a text of anybody's may ask.
    *_of(
        "drivetrain/targets/kubeflow/ir/tasks.py",
        ("targets/kubeflow/ir/test_check.py",),
        ("kubeflow: an output is taken without waiting for it", "& use.dag.tasks.keys() - set(dependent)", "& set()"),
        ("kubeflow: an item counts as missing", ' and name != use.iterator.get("itemInput")', ""),
        (
            "kubeflow: selections out of an object have its type",
            'and "parameterExpressionSelector" not in source and mismatch',
            "and mismatch",
        ),
        ("kubeflow: any iterator is over a list", 'or result.type == "LIST")', 'or result.type != "LIST")'),
    ),
    *_of(
        "drivetrain/targets/kubeflow/ir/sources.py",
        ("targets/kubeflow/ir/test_check.py",),
        ("kubeflow: a number is no whole number's", '!= ("NUMBER_INTEGER", "NUMBER_DOUBLE")', "!= ()"),
        (
            "kubeflow: items of unknown lists are texts",
            'if name in self.items and given.type == "STRING":',
            "if False:",
        ),
    ),
    *_of(
        "drivetrain/targets/kubeflow/ir/fields.py",
        ("targets/kubeflow/ir/test_check.py",),
        ("kubeflow: yes is a whole number", "    if isinstance(item, bool):\n        return False\n", ""),
    ),
    *_of(
        "drivetrain/targets/kubeflow/ir/cel.py",
        ("targets/kubeflow/ir/test_cel.py",),
        (
            "kubeflow: a text is compared with a number",
            "and None not in (left, right) and left",
            "and left and False and left",
        ),
        (
            "kubeflow: brackets without end",
            "        if level > MAX_LEVELS:\n            raise",
            "        if level > 10**6:\n            raise",
        ),
    ),
    *_of(
        "drivetrain/targets/kubeflow/compile/scopes.py",
        ("targets/kubeflow/compile/test_compile.py",),
        ("kubeflow: a step does not wait for what it reads", "            self.depend(task, channel.task)\n", ""),
        (
            "kubeflow: a value stops at the first DAG",
            "            self.parent.connect(self.task, channel.threaded, channel)\n",
            "            pass\n",
        ),
    ),
    *_of(
        "drivetrain/targets/kubeflow/compile/words.py",
        ("targets/kubeflow/compile/test_words.py",),
        ("kubeflow: a quote ends a text", r'[A-Za-z0-9 _.:/@=+-]")', r"""[A-Za-z0-9 _.:/@=+'-]")"""),
        ("kubeflow: whole numbers are compared as such", "return repr(float(value))", "return repr(value)"),
    ),
    *_of(
        "drivetrain/targets/kubeflow/compile/references.py",
        ("targets/kubeflow/compile/test_compile.py",),
        ("kubeflow: an importer takes a step's name", "while found in taken:", "while False:"),
        ("kubeflow: a place is imported twice", "if known in self._known:", "if False:"),
    ),
    # What a start file takes for an archive of ours, and lets out of its folder.
    *_of(
        "drivetrain/steps/start.py",
        ("steps/test_start.py",),
        (
            "start: names in a plain archive lead where they say",
            "            path = safe_path(name, folder, archive)\n            limit",
            "            path = os.path.join(folder, name)\n            limit",
        ),
        (
            "start: a plain header is not summed",
            "        if odd or header != plain_header(name, size):",
            "        if odd:",
        ),
        ("start: entries are not counted", "            limit.entry(name, end - begin)\n", ""),
    ),
    # What an estimator makes of columns, and of answers.
    *_of(
        "drivetrain/training/estimator.py",
        ("training/test_estimator.py",),
        ("estimator: an unseen category is the first one", "codes.get(value, np.nan)", "codes.get(value, 0)"),
        ("estimator: 7 is no category beside texts", "    _refuse_other_kind(feature, values)\n", "    pass\n"),
        ("estimator: quantiles may cross", "np.sort(margins, axis=1).T", "margins.T"),
    ),
    *_of(
        "drivetrain/training/checkpointing/saved_bytes.py",
        ("training/checkpointing/test_saved_bytes.py",),
        ("saved bytes: a damaged one stays in the way", "self._store.quarantine(step, error)", "error"),
        ("saved bytes: none is removed", "            self._store.retain(Retention(last=2))\n", ""),
    ),
)
