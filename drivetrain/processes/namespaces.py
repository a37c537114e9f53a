"""The kernel calls behind the local container: namespaces, mounts, parent-death signals (standard library only).

Linux man pages: unshare(2), mount(2), prctl(2), user_namespaces(7), pid_namespaces(7). Imported by the supervisor,
which starts without site-packages, so nothing of the package is imported here.
"""

from __future__ import annotations

import ctypes
import os
import stat

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

_MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 2, 4, 8
_MS_BIND, _MS_REC, _MS_PRIVATE = 4096, 16384, 1 << 18
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36

_libc = ctypes.CDLL(None, use_errno=True)


def unshare(flags: int) -> None:
    """Leave the namespaces named by `flags`.

    Raises:
        OSError: the kernel, a container runtime or a security module does not allow it.
    """
    _check(_libc.unshare(ctypes.c_int(flags)), "unshare")


def enter_user_namespace() -> None:
    """Become the owner of a user namespace in which this user keeps its number: what lets a plain user mount.

    The group list cannot be mapped without privileges; groups other than the first stay valid for access to files.
    """
    user, group = os.getuid(), os.getgid()
    unshare(CLONE_NEWUSER)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def leave_network() -> None:
    """Go to a network namespace without any interface that is up.

    Raises:
        OSError: it is not allowed.
    """
    if os.geteuid() != 0:
        enter_user_namespace()
    unshare(CLONE_NEWNET)


def set_subreaper() -> None:
    """Descendants whose parent dies become children of this process, however they were daemonised."""
    _check(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl")


def set_parent_death_signal(number: int) -> None:
    """Send this process the signal when the thread that forked it ends. Cleared by fork, kept over exec."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0), "prctl")


def mount_private(root: str, *, fresh_proc: bool) -> None:
    """Give this process a view of the file system of its own, in which /opt/ml is `root`.

    /dev/shm becomes a fresh one, so that what a killed job leaves there goes with it, as in a container;
    `fresh_proc` mounts the /proc of a new pid namespace (then this process must be the first one in it).

    Raises:
        OSError: mounts are not allowed, or there is no /opt to mount over.
    """
    unshare(CLONE_NEWNS)
    _mount(None, "/", None, _MS_REC | _MS_PRIVATE)
    folder = os.open(root, os.O_PATH | os.O_DIRECTORY)
    if not os.path.isdir("/opt/ml"):
        _rebuild_opt()
    # By descriptor: the path may lie in the very folder that was just covered.
    _mount(f"/proc/self/fd/{folder}", "/opt/ml", None, _MS_BIND | _MS_REC)
    os.close(folder)
    if os.path.isdir("/dev/shm"):
        _mount("tmpfs", "/dev/shm", "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=1777")
    if fresh_proc:
        _mount("proc", "/proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)


def probe() -> int:
    """Print what this kernel allows: `pid` (pid and mount namespaces), `mounts` (mount namespaces only), `none`."""
    for answer, fresh_proc in (("pid", True), ("mounts", False)):
        if _isolated(fresh_proc):
            print(answer)
            return 0
    print("none")
    return 0


def _rebuild_opt() -> None:
    """Cover /opt with a folder in memory that shows every entry of /opt and has an empty `ml` beside them.

    The host's /opt has no `ml` and must not get one.
    """
    entries: list[tuple[str, int, str | None]] = []
    for name in sorted(os.listdir("/opt")):
        path = f"/opt/{name}"
        target = os.readlink(path) if os.path.islink(path) else None
        entries.append((path, os.open(path, os.O_PATH | os.O_NOFOLLOW), target))
    _mount("tmpfs", "/opt", "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=755")
    for path, descriptor, target in entries:
        if target is not None:
            os.symlink(target, path)
        else:
            if stat.S_ISDIR(os.fstat(descriptor).st_mode):
                os.mkdir(path)
            else:
                os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
            _mount(f"/proc/self/fd/{descriptor}", path, None, _MS_BIND | _MS_REC)
        os.close(descriptor)
    os.makedirs("/opt/ml", exist_ok=True)  # it exists when /opt/ml was a link


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    encoded = [None if text is None else os.fsencode(text) for text in (source, target, kind, data)]
    result = _libc.mount(encoded[0], encoded[1], encoded[2], ctypes.c_ulong(flags), encoded[3])
    _check(result, f"mount {target}")


def _check(result: int, action: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{action}: {os.strerror(number)}")


def _isolated(fresh_proc: bool) -> bool:
    """Try everything in a child: each call may succeed and the combination still fail (a masked /proc, AppArmor)."""
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() != 0:
                enter_user_namespace()
            if fresh_proc:
                unshare(CLONE_NEWPID)
            first = os.fork()
            if first == 0:
                mount_private(os.path.dirname(os.path.abspath(__file__)), fresh_proc=fresh_proc)
                seen = os.path.samefile(__file__, os.path.join("/opt/ml", os.path.basename(__file__)))
                os._exit(0 if seen and os.path.exists(f"/proc/{os.getpid()}/stat") else 1)
            os._exit(os.waitstatus_to_exitcode(os.waitpid(first, 0)[1]))
        except OSError:
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0
