"""The first file that runs in a container: it brings the step's code to life and becomes the program.

    python3 start.py --code SHA256 [--training] [--folders model,output,checkpoints] TARGET [ARGUMENT ...]

It lies in the job's `code` channel beside SHA256.tar (or .tar.gz), which holds `drivetrain/` and the user's `source/`,
and beside the wheels that the image lacks. It verifies the hash, unpacks everything into a fresh local folder, puts
that on PYTHONPATH (processes that the program starts need it too) and becomes the program:

    module:function         python -m drivetrain.components.call module:function ARGUMENT ...
    script:path/in/source   python <unpacked>/source/path/in/source ARGUMENT ...

With --training the arguments are read from the platform's files: every hyperparameter as --name VALUE, every channel
as --<channel> FOLDER, and --model, --output and --checkpoints where --folders asks for them. In both kinds of job the
hosts arrive as DRIVETRAIN_HOSTS, DRIVETRAIN_HOST and DRIVETRAIN_NETWORK_INTERFACE, and the file in which the platform
looks for the reason of a failure as DRIVETRAIN_FAILURE_FILE: programs never read /opt/ml themselves.

Wheels count only where `wheels.sha256` in the archive lists them (lines as sha256sum writes them), so one hash vouches
for all code. Standard library only, Python 3.9 or newer, no package beside it: images differ. It needs no
site-packages either, so `python3 -I -S start.py` starts it fastest.
"""

from __future__ import annotations

import os
import sys

# typing, hashlib, json and tarfile each take longer to import than this file takes to run: they are imported where
# there is no way around them, or not at all.
TYPE_CHECKING = False
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
_SMALL = 16 * 1024 * 1024  # bytes that Python's own SHA-256 takes a tenth of a second for

_BLOCK = 512  # of a tar archive
_FILE, _FOLDER = b"0", b"5"
_MAX_DIGITS = 20

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
        }
        if os.path.isdir(base):  # not in a plain shell
            os.makedirs(os.path.dirname(failure_file), exist_ok=True)
            environment["DRIVETRAIN_FAILURE_FILE"] = failure_file
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
    """A new folder of this process in the local temporary folder (tempfile takes longer to import than all of this)."""
    parent = os.environ.get("TMPDIR") or "/tmp"
    folder = os.path.join(parent, "drivetrain-code-" + os.urandom(8).hex())
    os.mkdir(folder, 0o700)
    return folder


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
    with open(path, "rb") as file:
        digest = _sha256(os.fstat(file.fileno()).st_size)
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


def _sha256(size: int) -> Any:
    """A hash for so many bytes: Python's own, which is there at once, or for large files OpenSSL's, which is faster."""
    if size <= _SMALL:
        for module in ("_sha256", "_sha2"):  # before and since Python 3.12; some distributions leave it out
            try:
                return __import__(module).sha256()
            except ImportError:
                continue
    import hashlib

    return hashlib.sha256()


def unpack(archive: str, folder: str) -> None:
    """Unpack a tar or tar.gz of plain files and folders into an empty folder.

    Raises:
        StartError: no tar archive; a link, device, absolute path or `..` in it; a name twice; more than MAX_BYTES or
            MAX_ENTRIES, or far more than its own size promises. Nothing is ever written outside `folder`.
    """
    limit = _Limit(archive)
    with open(archive, "rb") as raw:
        compressed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        stream: Any = _Inflated(raw, limit) if compressed else raw
        try:
            for member in members(stream, limit):
                path = safe_path(member.name, folder, archive)
                if member.kind == _FOLDER:
                    os.makedirs(path, exist_ok=True)
                elif member.kind == _FILE:
                    _write(member.content, path, executable=member.executable, name=member.name)
                else:
                    kind = "link" if member.kind in b"12K" else "special file"
                    raise StartError(f"{member.name!r} in {os.path.basename(archive)} is a {kind}. {_ALLOWED}")
        except OSError as error:  # a full disk, a name too long, a file where a folder must be
            raise StartError(f"cannot unpack {os.path.basename(archive)}: {error}") from None


class _Member:
    """One entry of a tar archive; `content` is to be read before the next one."""

    def __init__(self, name: str, kind: bytes, executable: bool, content: Iterator[bytes]) -> None:
        self.name, self.kind, self.executable, self.content = name, kind, executable, content


def members(stream: Any, limit: _Limit) -> Iterator[_Member]:
    """The entries of a tar archive in order, in the formats ustar, pax and GNU (man 5 tar).

    A reader of our own, since `tarfile` takes several times as long to import as all code of a step takes to unpack. It
    understands what code archives hold, plain files and folders with names of any length, and hands on the type of
    everything else, for which nobody needs the details.

    Raises:
        StartError: a header that is damaged, content that is cut off, no end.
    """
    extended: dict[str, str] = {}
    while True:
        header = _block(stream, _BLOCK, limit)
        if not any(header):
            return
        name, kind, size, executable = _header(header, limit)
        if kind in b"xgL":  # what they say of the next member (`g`: of all) is in their content
            limit.entry(name, size)
            content = _block(stream, size, limit)
            _block(stream, -size % _BLOCK, limit)
            if kind == b"L":
                extended["path"] = _text(content)
            else:
                records = _records(content, limit)
                if kind == b"g" and ("path" in records or "size" in records):
                    raise limit.broken("a name or size for all members")
                extended.update(records if kind == b"x" else {})
            continue
        name = extended.get("path", name)
        if kind in (b"\0", b"7"):  # as old programs say file; their folders are files with a slash at the end
            kind = _FOLDER if name.endswith("/") else _FILE
        if "size" in extended:
            size = _number(extended["size"].encode(), 10, limit)
        if any(key.startswith("GNU.sparse") for key in extended):
            kind = b"S"
        extended = {}
        limit.entry(name, size)
        size = size if kind == _FILE else 0
        content = _content(stream, size, limit)
        yield _Member(name, kind, executable, content)
        for _ in content:
            pass
        _block(stream, -size % _BLOCK, limit)


def _header(header: bytes, limit: _Limit) -> tuple[str, bytes, int, bool]:
    """Name, kind, size, and whether the file is a program."""
    if _number(header[148:156], 8, limit) != sum(header) - sum(header[148:156]) + 8 * ord(" "):
        raise limit.broken("a header with a wrong checksum")
    name = _text(header[:100])
    prefix = _text(header[345:500]) if header[257:263] == b"ustar\0" else ""
    executable = bool(_number(header[100:108], 8, limit) & 0o100)
    return (prefix + "/" + name if prefix else name), header[156:157], _number(header[124:136], 8, limit), executable


def _records(content: bytes, limit: _Limit) -> dict[str, str]:
    """The records of a pax header: `LENGTH KEY=VALUE\\n`, the length of all of it."""
    found: dict[str, str] = {}
    while content:
        length = _number(content.partition(b" ")[0], 10, limit)
        record, content = content[:length], content[length:]
        key, equals, value = record.partition(b" ")[2].partition(b"=")
        if len(record) != length or not equals or not value.endswith(b"\n"):
            raise limit.broken("an extended header that is no list of records")
        found[_text(key)] = _text(value[:-1])
    return found


def _number(field: bytes, base: int, limit: _Limit) -> int:
    digits = field.partition(b"\0")[0].strip(b" ")
    if digits.strip(b"0123456789"[:base]) or len(digits) > _MAX_DIGITS:
        raise limit.broken("a number that is none or too large")
    return int(digits or b"0", base)


def _text(field: bytes) -> str:
    return field.partition(b"\0")[0].decode("utf-8", "surrogateescape")


def _content(stream: Any, size: int, limit: _Limit) -> Iterator[bytes]:
    while size:
        chunk = _block(stream, min(size, _CHUNK), limit)
        size -= len(chunk)
        yield chunk


def _block(stream: Any, size: int, limit: _Limit) -> bytes:
    """So many bytes and not one less."""
    content: bytes = stream.read(size)
    if len(content) != size:
        raise limit.broken("its end is missing")
    return content


def unpack_wheel(wheel: str, folder: str) -> None:
    """Unpack a wheel so that `folder` is what pip would have put into site-packages (scripts and headers left out)."""
    import zipfile

    limit = _Limit(wheel)
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
                    with archive.open(member) as file:
                        _write(iter(lambda: file.read(_CHUNK), b""), path, executable=False, name=name)
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

    def broken(self, why: str) -> StartError:
        return StartError(f"{self.name} is not a whole tar archive: {why}.")

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

    def read(self, size: int) -> bytes:
        self._limit.check(self._at + size)  # what is asked for is held in memory
        parts: list[bytes] = []
        missing = size
        while missing > 0:
            if not self._ready:
                data = self._inflate.unconsumed_tail or self._raw.read(65536)
                if self._inflate.eof or not data:
                    break
                try:
                    self._ready = self._inflate.decompress(data, _CHUNK)
                except self._zlib.error as error:
                    raise self._limit.broken(str(error)) from None
                continue
            parts.append(self._ready[:missing])
            self._ready = self._ready[missing:]
            missing -= len(parts[-1])
        content = b"".join(parts)
        self._at += len(content)
        return content


def _write(content: Iterator[bytes], path: str, *, executable: bool, name: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        descriptor = os.open(path, flags, 0o755 if executable else 0o644)
    except FileExistsError:
        raise StartError(f"{name!r} is in its archive twice. {_ALLOWED}") from None
    with os.fdopen(descriptor, "wb") as out:
        for chunk in content:
            out.write(chunk)


def program(options: Mapping[str, Any], code: Sequence[str]) -> list[str]:
    """The command line up to the arguments that the platform's files add."""
    target: str = options["target"]
    if target.startswith("script:"):
        name = target[len("script:") :]
        script = safe_path(name, code[1], "the target")
        if not os.path.isfile(script):
            raise StartError(f"no script {name!r} in the source folder. It holds {_some_of(code[1])}.")
        return [sys.executable, script, *options["arguments"]]
    if ":" not in target:
        raise StartError(f"target {target!r}. Allowed: module:function, or script:PATH in the source folder.")
    return [sys.executable, "-m", "drivetrain.components.call", target, *options["arguments"]]


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
    import json

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
    main(sys.argv[1:])
