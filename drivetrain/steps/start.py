"""The first file that runs in a container: it brings the step's code to life and becomes the program.

    python3 start.py --code SHA256 [--training] [--folders model,output,checkpoints] TARGET [ARGUMENT ...]

It lies in the job's `code` channel beside SHA256.tar (or .tar.gz), which holds `drivetrain/` and the user's `source/`,
and beside the wheels that the image lacks. It verifies the hash, unpacks everything into a fresh local folder, puts
that on PYTHONPATH (processes that the program starts need it too), names `source/` as DRIVETRAIN_SOURCE and becomes the
program:

    module:function         python -m drivetrain.steps.call module:function ARGUMENT ...
    script:path/in/source   python <unpacked>/source/path/in/source ARGUMENT ...
    kubeflow                python -m drivetrain.steps.kubeflow EXECUTOR-INPUT

With --training the arguments are read from the platform's files: every hyperparameter as --name VALUE, every channel
as --<channel> FOLDER, and --model, --output and --checkpoints where --folders asks for them. In both kinds of job the
hosts arrive as DRIVETRAIN_HOSTS, DRIVETRAIN_HOST and DRIVETRAIN_NETWORK_INTERFACE, and the file in which the platform
looks for the reason of a failure as DRIVETRAIN_FAILURE_FILE, that of TensorBoard's files (in a training job) as
DRIVETRAIN_TENSORBOARD_FOLDER: programs never read /opt/ml themselves.

Wheels count only where `wheels.sha256` in the archive lists them (lines as sha256sum writes them), so one hash vouches
for all code. Standard library only, Python 3.9 or newer, no package beside it: images differ. It needs no
site-packages either, so `python3 -I -S start.py` starts it fastest.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tarfile

TYPE_CHECKING = False  # typing takes longer to import than this file takes to run
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import IO, Any, NoReturn

MAX_BYTES = 1024 * 1024 * 1024
MAX_ENTRIES = 100_000
# A small archive that unpacks to more than FREE_BYTES may be at most this many times its own size: source code
# compresses 3 to 20 times, a bomb 1000 times. What is refused is refused within a second.
MAX_RATIO = 100
FREE_BYTES = 64 * 1024 * 1024
_CHUNK = 1024 * 1024
SHARED_MEMORY = "/dev/shm"

CODE_CHANNEL = "code"
WHEELS = "wheels.sha256"
FOLDERS = {"model": "model", "output": "output/data", "checkpoints": "checkpoints"}
FAILURE_CHARACTERS = 1024
BAD_INPUT = 2


class StartError(ValueError):
    """The step cannot start; the message says what was found, what is allowed and what to do."""


def main(arguments: Sequence[str]) -> NoReturn:
    """Become the program; on an error say why where people and where the platform look, and end with 2."""
    base = os.environ.get("SAGEMAKER_BASE_DIR", "/opt/ml")
    # Where each kind of job has its reason read from; on a bad command line the option alone must tell.
    failure_file = os.path.join(base, "output", "failure" if "--training" in arguments else "message")
    try:
        options = parse(arguments)
        failure_file = os.path.join(base, "output", "failure" if options["training"] else "message")
        here = os.path.dirname(os.path.abspath(__file__))
        code = unpack_code(here, options["code"], fresh_folder())
        command = program(options, code)
        if options["training"]:
            command += training_arguments(base, options["folders"])
        environment = {
            **os.environ,
            **cluster_variables(base),
            "PYTHONPATH": python_path(code, os.environ.get("PYTHONPATH", "")),
            "DRIVETRAIN_SOURCE": code[1],
        }
        if os.path.isdir(base):  # not in a plain shell
            os.makedirs(os.path.dirname(failure_file), exist_ok=True)
            environment["DRIVETRAIN_FAILURE_FILE"] = failure_file
            if options["training"]:  # where TensorBoardOutputConfig copies from, unless it names another LocalPath
                environment.setdefault("DRIVETRAIN_TENSORBOARD_FOLDER", os.path.join(base, "output", "tensorboard"))
        sys.stdout.flush()
        os.execve(sys.executable, command, environment)
    except (StartError, OSError) as error:
        message = "error: start.py: " + str(error)
        print(message, file=sys.stderr, flush=True)
        if os.path.isdir(base):
            write_failure(failure_file, message)
        sys.exit(BAD_INPUT)


def write_failure(path: str, message: str) -> None:
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(message[:FAILURE_CHARACTERS] + "\n")
    except OSError as error:  # a full disk: the message is on stderr
        print("error: start.py: cannot write " + path + ": " + str(error), file=sys.stderr)


def parse(arguments: Sequence[str]) -> dict[str, Any]:
    """Our own options end where the target begins; all that follows is the program's."""
    options: dict[str, Any] = {"code": None, "training": False, "folders": []}
    rest = list(arguments)
    while rest and rest[0].startswith("--"):
        option = rest.pop(0)
        if option == "--training":
            options["training"] = True
        elif option in ("--code", "--folders") and rest:
            options[option[2:]] = rest.pop(0)
        else:
            raise StartError(f"unknown option {option!r}, or no value for it.\n{usage()}")
    if isinstance(options["folders"], str):
        options["folders"] = [name for name in options["folders"].split(",") if name]
    unknown = [name for name in options["folders"] if name not in FOLDERS]
    if unknown:
        raise StartError(f"--folders names {unknown[0]!r}. Allowed: {', '.join(FOLDERS)}.")
    code = options["code"]
    if code is None or len(code) != 64 or set(code) - set("0123456789abcdef"):
        raise StartError(f"--code {code!r} is not a SHA-256 of 64 lower-case digits.\n{usage()}")
    if not rest:
        raise StartError(f"no target.\n{usage()}")
    options["target"], options["arguments"] = rest[0], rest[1:]
    return options


def usage() -> str:
    return (__doc__ or "").splitlines()[2].strip()


def fresh_folder() -> str:
    """A new folder of this process: in memory, where a container has room there for code that may be executed (a file
    is made in a tenth of the time), else in the local temporary folder (tempfile takes longer to import than all of
    this)."""
    parent = SHARED_MEMORY if in_a_container() and has_room(SHARED_MEMORY) else os.environ.get("TMPDIR") or "/tmp"
    folder = os.path.join(parent, "drivetrain-code-" + os.urandom(8).hex())
    os.mkdir(folder, 0o700)
    return folder


def in_a_container() -> bool:
    """Whether what is in memory goes with the job."""
    return "SAGEMAKER_BASE_DIR" not in os.environ and os.path.isdir("/opt/ml")


def has_room(folder: str) -> bool:
    try:
        found = os.statvfs(folder)
    except OSError:
        return False
    free = found.f_bavail * found.f_frsize
    return not found.f_flag & os.ST_NOEXEC and free >= FREE_BYTES and os.access(folder, os.W_OK)


def unpack_code(channel: str, sha256: str, folder: str) -> list[str]:
    """Verify and unpack the archive and its wheels below `folder`; the folders to import from, the first one first."""
    for name in (sha256 + ".tar", sha256 + ".tar.gz"):
        path = os.path.join(channel, name)
        if os.path.exists(path):
            break
    else:
        found = ", ".join(sorted(os.listdir(channel)))
        raise StartError(f"no {sha256}.tar in the code channel {channel} (it holds {found}). Deploy again.")
    verify(path, sha256)
    root = os.path.join(folder, "code")
    os.mkdir(root)
    unpack(path, root)
    imported = [root, os.path.join(root, "source")]
    listed = listed_wheels(os.path.join(root, WHEELS))
    extra = sorted(name for name in os.listdir(channel) if name.endswith(".whl") and name not in listed)
    if extra:
        raise StartError(f"the wheel {extra[0]} is in the code channel, but {WHEELS} in the archive does not list it.")
    for number, name in enumerate(sorted(listed)):
        wheel = os.path.join(channel, name)
        if not os.path.exists(wheel):
            raise StartError(f"the wheel {name} is not in the code channel {channel}. Deploy again.")
        verify(wheel, listed[name])
        imported.append(os.path.join(folder, f"wheel{number}"))
        os.mkdir(imported[-1])
        unpack_wheel(wheel, imported[-1])
    return imported


def listed_wheels(path: str) -> dict[str, str]:
    """File name -> SHA-256 of the wheels that belong to the archive."""
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        entries = [line.split(None, 1) for line in file.read().splitlines() if line.strip()]
    listed = {entry[-1].strip().lstrip("*"): entry[0] for entry in entries}
    for name in listed:
        if "/" in name or not name.endswith(".whl"):
            raise StartError(f"{WHEELS} lists {name!r}. Allowed: names of .whl files.")
    return listed


def verify(path: str, sha256: str) -> None:
    """
    Raises:
        StartError: the file's content is not what the name promises.
    """
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while True:
            chunk = file.read(_CHUNK)
            if not chunk:
                break
            digest.update(chunk)
    if digest.hexdigest() != sha256:
        raise StartError(
            f"{os.path.basename(path)} has the SHA-256 {digest.hexdigest()}, not {sha256}: it was damaged or replaced. "
            "Deploy again."
        )


def unpack(archive: str, folder: str) -> None:
    """Unpack a tar or tar.gz of plain files and folders into an empty folder.

    Raises:
        StartError: no tar archive; a link, device, absolute path or `..` in it; a name twice; more than MAX_BYTES or
            MAX_ENTRIES, or far more than its own size promises. Nothing is ever written outside `folder`.
    """
    import zlib

    limit = _Limit(archive)
    made = {folder}
    with open(archive, "rb") as raw:
        compressed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        stream: Any = _Inflated(raw, limit) if compressed else raw
        try:
            # r: reads headers and data in order; r| would read ahead past our limits.
            with tarfile.open(fileobj=stream, mode="r:") as tar:
                for member in tar:
                    path = safe_path(member.name, folder, archive)
                    limit.entry(member.name, member.size)
                    if member.isdir():
                        os.makedirs(path, exist_ok=True)
                    elif member.isreg() and not member.issparse():
                        _make(os.path.dirname(path), made)
                        _write(tar.extractfile(member), path, executable=bool(member.mode & 0o100), name=member.name)
                    else:
                        kind = "link" if member.issym() or member.islnk() else "special file"
                        raise StartError(f"{member.name!r} in {os.path.basename(archive)} is a {kind}. {_ALLOWED}")
        except (tarfile.TarError, zlib.error, EOFError) as error:
            raise StartError(f"{os.path.basename(archive)} is not a whole tar archive: {error}.") from None
        except OSError as error:  # a full disk, a name too long, a file where a folder must be
            raise StartError(f"cannot unpack {os.path.basename(archive)}: {error}") from None


def unpack_wheel(wheel: str, folder: str) -> None:
    """Unpack a wheel so that `folder` is what pip would have put into site-packages (scripts and headers left out)."""
    import zipfile

    limit = _Limit(wheel)
    made = {folder}
    try:
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.infolist():
                limit.entry(member.filename, member.file_size)
                name = member.filename
                top, _, rest = name.partition("/")
                if top.endswith(".data"):
                    kind, _, name = rest.partition("/")
                    if kind not in ("purelib", "platlib") or not name:
                        continue
                path = safe_path(name, folder, wheel)
                if (member.external_attr >> 28) not in (0, 0o10, 0o4):  # file type bits: none, file, folder
                    raise StartError(f"{name!r} in {os.path.basename(wheel)} is a link or special file. {_ALLOWED}")
                if name.endswith("/"):
                    os.makedirs(path, exist_ok=True)
                else:
                    _make(os.path.dirname(path), made)
                    with archive.open(member) as file:
                        _write(file, path, executable=False, name=name)
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:  # the last two: encrypted
        raise StartError(f"{os.path.basename(wheel)} is not a whole wheel: {error}.") from None
    except OSError as error:
        raise StartError(f"cannot unpack {os.path.basename(wheel)}: {error}") from None


_ALLOWED = "Allowed are plain files and folders with relative paths."


def safe_path(name: str, folder: str, archive: str) -> str:
    """
    Raises:
        StartError: the member would land outside `folder`.
    """
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or ".." in parts or "\0" in name or "\\" in name:
        raise StartError(f"{name!r} in {os.path.basename(archive)} leads outside its folder. {_ALLOWED}")
    return os.path.join(folder, *parts)


class _Limit:
    """Counts what an archive claims and what it really unpacks to."""

    def __init__(self, archive: str) -> None:
        self.name = os.path.basename(archive)
        self.allowed = min(MAX_BYTES, max(FREE_BYTES, MAX_RATIO * os.path.getsize(archive)))
        self.claimed = self.entries = 0

    def entry(self, name: str, size: int) -> None:
        self.entries += 1
        self.claimed += size
        if self.entries > MAX_ENTRIES:
            raise StartError(f"{self.name} has more than {MAX_ENTRIES:,} entries.")
        self.check(self.claimed)

    def check(self, size: int) -> None:
        if size > self.allowed:
            raise StartError(
                f"{self.name} unpacks to more than {self.allowed >> 20} MiB. Allowed: {MAX_BYTES >> 20} MiB, and "
                f"{MAX_RATIO} times its own size."
            )


class _Inflated:
    """A gzip file as a stream that only goes forward and refuses to grow beyond the limit."""

    def __init__(self, raw: IO[bytes], limit: _Limit) -> None:
        import zlib

        self._raw, self._limit, self._zlib = raw, limit, zlib
        self._inflate = zlib.decompressobj(wbits=31)
        self._ready, self._at = b"", 0

    def tell(self) -> int:
        return self._at

    def seek(self, position: int, whence: int = 0) -> int:
        if whence != 0 or position < self._at:
            raise tarfile.ReadError("its members are not in order")
        while self._at < position and self.read(min(_CHUNK, position - self._at)):
            pass
        return self._at

    def read(self, size: int = -1) -> bytes:
        # Also the size that a header claims for itself, which tarfile reads into memory in one piece.
        self._limit.check(self._at + size)
        parts: list[bytes] = []
        missing = size
        while missing > 0:
            if not self._ready:
                data = self._inflate.unconsumed_tail or self._raw.read(65536)
                if self._inflate.eof or not data:
                    break
                self._ready = self._inflate.decompress(data, _CHUNK)
                continue
            parts.append(self._ready[:missing])
            self._ready = self._ready[missing:]
            missing -= len(parts[-1])
        content = b"".join(parts)
        self._at += len(content)
        return content


def _write(file: IO[bytes] | None, path: str, *, executable: bool, name: str) -> None:
    if file is None:
        raise StartError(f"{name!r} has no content in its archive.")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        descriptor = os.open(path, flags, 0o755 if executable else 0o644)
    except FileExistsError:
        raise StartError(f"{name!r} is in its archive twice. {_ALLOWED}") from None
    with open(descriptor, "wb", buffering=0) as out:
        while chunk := file.read(_CHUNK):
            while chunk:
                chunk = chunk[out.write(chunk) :]


def _make(folder: str, made: set[str]) -> None:
    """Make a folder that is not among those that were made."""
    if folder not in made:
        os.makedirs(folder, exist_ok=True)
        made.add(folder)


def program(options: Mapping[str, Any], code: Sequence[str]) -> list[str]:
    """The command line up to the arguments that the platform's files add."""
    target: str = options["target"]
    if target.startswith("script:"):
        name = target[len("script:") :]
        script = safe_path(name, code[1], "the target")
        if not os.path.isfile(script):
            raise StartError(f"no script {name!r} in the source folder. It holds {_some_of(code[1])}.")
        return [sys.executable, script, *options["arguments"]]
    if target == "kubeflow":
        return [sys.executable, "-m", "drivetrain.steps.kubeflow", *options["arguments"]]
    if ":" not in target:
        raise StartError(f"target {target!r}. Allowed: module:function, or script:PATH in the source folder.")
    return [sys.executable, "-m", "drivetrain.steps.call", target, *options["arguments"]]


def training_arguments(base: str, folders: Sequence[str]) -> list[str]:
    """Hyperparameters, channels and folders as arguments, the first two sorted by name."""
    config = os.path.join(base, "input", "config")
    words: list[str] = []
    parameters = read_json(os.path.join(config, "hyperparameters.json"))
    for name in sorted(parameters):
        # The SDK and the tuner put settings of their own among the user's.
        if not name.startswith("sagemaker_") and name != "_tuning_objective_metric":
            words += option(name, str(parameters[name]))
    for channel in sorted(read_json(os.path.join(config, "inputdataconfig.json"))):
        if channel != CODE_CHANNEL:
            words += option(channel, os.path.join(base, "input", "data", channel))
    for name in folders:
        words += option(name, os.path.join(base, FOLDERS[name]))
    return words


def option(name: str, value: str) -> list[str]:
    """`--max-digits 3`; joined by `=` where the value itself would be taken for an option."""
    flag = "--" + name.replace("_", "-")
    return [f"{flag}={value}"] if value.startswith("-") else [flag, value]


def cluster_variables(base: str) -> dict[str, str]:
    """Who the hosts are, from resourceconfig.json; nothing where there is none (a plain container)."""
    for folder in ("input/config", "config"):
        path = os.path.join(base, folder, "resourceconfig.json")
        if os.path.exists(path):
            resources = read_json(path)
            if not resources.get("hosts") or not resources.get("current_host"):
                raise StartError(f"{path} names no hosts or no current_host.")
            found = {
                "DRIVETRAIN_HOSTS": ",".join(resources["hosts"]),
                "DRIVETRAIN_HOST": resources["current_host"],
            }
            if resources.get("network_interface_name"):
                found["DRIVETRAIN_NETWORK_INTERFACE"] = resources["network_interface_name"]
            return found
    return {}


def read_json(path: str) -> dict[str, Any]:
    """
    Raises:
        StartError: the file is not there or holds no JSON object.
    """
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except (OSError, ValueError) as error:
        raise StartError(f"cannot read {path}: {error}") from None
    if not isinstance(content, dict):
        raise StartError(f"{path} holds no JSON object.")
    return content  # pyright: ignore[reportUnknownVariableType]


def python_path(code: Sequence[str], inherited: str) -> str:
    return os.pathsep.join([*code, *([inherited] if inherited else [])])


def _some_of(folder: str) -> str:
    names = list(_files(folder))
    return ", ".join(names[:8]) + (" ..." if len(names) > 8 else "") if names else "nothing"


def _files(folder: str) -> Iterator[str]:
    for parent, _, names in os.walk(folder):
        for name in sorted(names):
            yield os.path.relpath(os.path.join(parent, name), folder)


if __name__ == "__main__":
    # A training of a tuning can name no entry point: the image's toolkit starts this file with the hyperparameters.
    given = os.environ.pop("DRIVETRAIN_START", None)
    main(sys.argv[1:] if given is None else json.loads(given))
