"""From a text to the documents of a pipeline: the spec, and the platform's part where there is one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from drivetrain.authoring.plain_yaml import load_documents
from drivetrain.base.errors import UserError

Json = dict[str, Any]

# The Pipelines API takes 32 MB; what kfp and we write for a thousand steps has 3.
MAX_BYTES = 8 * 1024 * 1024
SPEC_FIELDS = ("pipelineInfo", "deploymentSpec", "root")


@dataclass(frozen=True)
class Documents:
    """The two documents of a pipeline's text, unchecked."""

    spec: Json
    platform: Json
    """Empty if it is missing."""


def looks_like_ir(text: bytes) -> bool:
    """Return True if a text seems to be a pipeline of this kind: its top level has a field that no other document
    has."""
    text = text[:MAX_BYTES]
    return any(_is_top_level(text, field.encode()) for field in ("pipelineInfo", "deploymentSpec"))


def _is_top_level(text: bytes, field: bytes) -> bool:
    """In a line of its own without indentation, or as a key of JSON."""
    return text.startswith(field + b":") or b"\n" + field + b":" in text or b'"' + field + b'"' in text


def read(text: bytes, source: str) -> Documents:
    """The documents in a text.

    Args:
        source: names it in messages.

    Raises:
        UserError: too large, no UTF-8, no plain YAML, nested too deeply, or no document of a pipeline.
    """
    if len(text) > MAX_BYTES:
        raise UserError(f"{source}: {len(text):,} bytes are too much. Allowed: {MAX_BYTES:,}.")
    try:
        plain = text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{source}: byte {error.start} is not UTF-8. Save the file as UTF-8.") from None
    documents = load_documents(plain, source)
    if len(documents) > 2:
        raise UserError(
            f"{source}: {len(documents)} documents. Allowed: the pipeline's spec, and one for its platforms."
        )
    found = [cast(Json, each) for each in documents if isinstance(each, dict)]
    if len(found) != len(documents) or not found:
        raise UserError(f"{source}: a document is no object. Give the YAML that a compiler of pipelines wrote.")
    spec = found[0]
    if not any(field in spec for field in SPEC_FIELDS):
        raise UserError(
            f"{source}: no pipeline of Kubeflow Pipelines v2: it has none of {', '.join(SPEC_FIELDS)}. Its first "
            f"fields: {', '.join(map(str, list(spec)[:5])) or 'none'}."
        )
    return Documents(spec, found[1] if len(found) == 2 else {})
