"""The first file that runs in a container: it brings the step's code to life and becomes the program.

    python3 start.py --code SHA256 [--training] [--folders model,output,checkpoints] TARGET [ARGUMENT ...]

It lies in the job's `code` channel, beside SHA256.tar, which holds `drivetrain/` and the user's `source/`, and beside
the wheels that the image lacks. It verifies the hash, unpacks everything into a fresh local folder, puts that on
PYTHONPATH (processes that it starts need it too), names `source/` as DRIVETRAIN_SOURCE and becomes the program:

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

TYPE_CHECKING = False  # typing takes longer to import than this file takes to run
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import IO, Any, NoReturn

MAX_BYTES = 1024 * 1024 * 1024
MAX_ENTRIES = 100_000
# A small archive that unpacks to more than FREE_BYTES may be at most this many times its own size: source code
# compresses 3 to 20 times, a bomb 1000 times. What is refused is refused within a second.
MAX_RATIO = 100
FREE_BYTES = 64 * 1024 * 1024
_CHUNK = 64 * 1024  # of more, the memory takes longer to get than the bytes
_BLOCK = 512
# Parts of a tar's header: mode and owner, time, the kind of file and of tar; and the sum of their bytes, with the eight
# of the sum itself as blanks.
_OWNER, _TIME = b"0000644\x00" + 2 * b"0000000\x00", b"\x00" + b"00000000000\x00"
_REST = b"0" + bytes(100) + b"ustar\x0000" + bytes(247)
_SUM = sum(_OWNER + _TIME + b" " * 8 + _REST)
SHARED_MEMORY = "/dev/shm"

CODE_CHANNEL = "code"
WHEELS = "wheels.sha256"
FOLDERS = {"model": "model", "output": "output/data", "checkpoints": "trainings"}
FAILURE_CHARACTERS = 1024
SECRET_WORDS = ("SECRET", "PASS", "PWD", "CREDENTIAL", "TOKEN", "AUTH", "KEY")
BAD_INPUT = 2
USAGE = (__doc__ or "\n\n\n").splitlines()[2].strip()


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
        code = unpack_code(here, options["code"], fresh_folder(here))
        command = program(options, code)
        if options["training"]:
            command += training_arguments(base, options["folders"])
        environment = {
            **os.environ,
            **cluster_variables(base),
            "PYTHONPATH": os.pathsep.join([*code, *filter(None, [os.environ.get("PYTHONPATH")])]),
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
        message = masked(f"error: start.py: {error}")
        print(message, file=sys.stderr, flush=True)
        if os.path.isdir(base):
            write_failure(failure_file, message)
        sys.exit(BAD_INPUT)


def masked(message: str) -> str:
    """Without the values of secret-named variables: drivetrain.base.masking is not unpacked yet."""
    for name, value in sorted(os.environ.items(), key=lambda one: -len(one[1])):  # one may begin with another
        if len(value) >= 8 and not value.startswith("/") and any(word in name.upper() for word in SECRET_WORDS):
            message = message.replace(value, "***").replace(repr(value)[1:-1], "***")
    return message.partition("-----BEGIN ")[0]


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
            raise StartError(f"unknown option {option!r}, or no value for it.\n{USAGE}")
    if isinstance(options["folders"], str):
        options["folders"] = [name for name in options["folders"].split(",") if name]
    unknown = [name for name in options["folders"] if name not in FOLDERS]
    if unknown:
        raise StartError(f"--folders names {unknown[0]!r}. Allowed: {', '.join(FOLDERS)}.")
    code = options["code"]
    if code is None or len(code) != 64 or set(code) - set("0123456789abcdef"):
        raise StartError(f"--code {code!r} is not a SHA-256 of 64 lower-case digits.\n{USAGE}")
    if not rest:
        raise StartError(f"no target.\n{USAGE}")
    options["target"], options["arguments"] = rest[0], rest[1:]
    return options


def fresh_folder(channel: str) -> str:
    """A new folder: in memory, where a container has room for code there (files are made in a tenth of the time; a
    wheel is up to six times as large unpacked), else the local temporary one (tempfile takes longer to import)."""
    in_memory = in_a_container() and has_room(SHARED_MEMORY, channel)
    parent = SHARED_MEMORY if in_memory else os.environ.get("TMPDIR") or "/tmp"
    folder = os.path.join(parent, "drivetrain-code-" + os.urandom(8).hex())
    os.mkdir(folder, 0o700)
    return folder


def in_a_container() -> bool:
    """Return True if what is in memory goes with the job."""
    return "SAGEMAKER_BASE_DIR" not in os.environ and os.path.isdir("/opt/ml")


def has_room(folder: str, channel: str) -> bool:
    try:
        found = os.statvfs(folder)
    except OSError:
        return False
    room = FREE_BYTES + 6 * sum(each.stat().st_size for each in os.scandir(channel) if each.name.endswith(".whl"))
    return not found.f_flag & os.ST_NOEXEC and found.f_bavail * found.f_frsize >= room and os.access(folder, os.W_OK)


def unpack_code(channel: str, sha256: str, folder: str) -> list[str]:
    """Verify and unpack the archive and its wheels below `folder`; the folders to import from, the first one first."""
    path = os.path.join(channel, sha256 + ".tar")
    if not os.path.exists(path):
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
    """Raise a StartError where the file's content is not what the name promises."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    if digest.hexdigest() != sha256:
        raise StartError(
            f"{os.path.basename(path)} has the SHA-256 {digest.hexdigest()}, not {sha256}: it was damaged or replaced. "
            "Deploy again."
        )


def unpack(archive: str, folder: str) -> None:
    """Unpack a tar of plain files and folders into an empty folder.

    Raises:
        StartError: no tar archive; a link, device, absolute path or `..` in it; a name twice; more than MAX_BYTES or
            MAX_ENTRIES, or far more than its own size promises. Nothing is ever written outside `folder`.
    """
    limit = _Limit(archive)
    made = {folder}
    try:
        with open(archive, "rb") as raw:
            content = raw.read(FREE_BYTES)
            files = plain_files(content)
            if files is None:
                raw.seek(0)
                return _unpack_by_tarfile(raw, archive, folder, limit, made)
        for name, begin, end in files:
            path = safe_path(name, folder, archive)
            limit.entry(name, end - begin)
            _make(os.path.dirname(path), made)
            _write([content[begin:end]], path, executable=False, name=name)
    except OSError as error:  # a full disk, a name too long, a file where a folder must be
        raise StartError(f"cannot unpack {os.path.basename(archive)}: {error}") from None


def plain_header(name: bytes, size: bytes) -> bytes:
    """The header of a file in the archives that drivetrain writes.

    Args:
        name: at most 100 bytes, ASCII.
        size: of the file, in eleven octal digits.
    """
    checksum = b"%06o\x00 " % (_SUM + sum(name) + sum(size))
    return b"".join((name.ljust(100, b"\x00"), _OWNER, size, _TIME, checksum, _REST))


def plain_files(content: bytes) -> list[tuple[str, int, int]] | None:
    """The files of an archive as drivetrain writes it: each one's name, and where its content begins and ends.

    None for any other (made by another program, or with a longer name): tarfile reads it, five times slower.
    """
    found: list[tuple[str, int, int]] = []
    at, end_mark = 0, bytes(_BLOCK)
    while (header := content[at : at + _BLOCK]) != end_mark:
        name, size = header[:100].rstrip(b"\x00"), header[124:135]
        odd = size.strip(b"01234567") or not name.isascii() or b"\x00" in name
        if odd or header != plain_header(name, size):
            return None
        begin = at + _BLOCK
        end = begin + int(size, 8)
        if end > len(content):
            return None
        found.append((name.decode(), begin, end))
        at = end + -end % _BLOCK
    return found


def _unpack_by_tarfile(raw: IO[bytes], archive: str, folder: str, limit: _Limit, made: set[str]) -> None:
    import tarfile

    try:
        with tarfile.open(fileobj=raw, mode="r:") as tar:
            for member in tar:
                path = safe_path(member.name, folder, archive)
                limit.entry(member.name, member.size)
                if member.isdir():
                    os.makedirs(path, exist_ok=True)
                elif member.isreg() and not member.issparse():
                    file = tar.extractfile(member)
                    assert file is not None, "a plain file has a content"
                    _make(os.path.dirname(path), made)
                    _write(_chunks(file), path, executable=bool(member.mode & 0o100), name=member.name)
                else:
                    kind = "link" if member.issym() or member.islnk() else "special file"
                    raise StartError(f"{member.name!r} in {os.path.basename(archive)} is a {kind}. {_ALLOWED}")
    except (tarfile.TarError, EOFError) as error:
        raise StartError(f"{os.path.basename(archive)} is not a whole tar archive: {error}.") from None


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
                        _write(_chunks(file), path, executable=False, name=name)
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
        if self.claimed > self.allowed:
            raise StartError(
                f"{self.name} unpacks to more than {self.allowed >> 20} MiB. Allowed: {MAX_BYTES >> 20} MiB, and "
                f"{MAX_RATIO} times its own size."
            )


def _write(chunks: Iterable[bytes], path: str, *, executable: bool, name: str) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        out = os.open(path, flags, 0o755 if executable else 0o644)
    except FileExistsError:
        raise StartError(f"{name!r} is in its archive twice. {_ALLOWED}") from None
    try:
        for chunk in chunks:
            while chunk:
                chunk = chunk[os.write(out, chunk) :]
    finally:
        os.close(out)


def _chunks(file: IO[bytes]) -> Iterator[bytes]:
    return iter(lambda: file.read(_CHUNK), b"")


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
    """Variables that name the hosts, from resourceconfig.json; empty without one (a plain container)."""
    for folder in ("input/config", "config"):
        path = os.path.join(base, folder, "resourceconfig.json")
        if os.path.exists(path):
            resources = read_json(path)
            if not resources.get("hosts") or not resources.get("current_host"):
                raise StartError(f"{path} names no hosts or no current_host.")
            found = {"DRIVETRAIN_HOSTS": ",".join(resources["hosts"]), "DRIVETRAIN_HOST": resources["current_host"]}
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
