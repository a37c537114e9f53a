"""Texts of a certain form, whose refusal says in words what is allowed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError
from pydantic_core.core_schema import no_info_after_validator_function


@dataclass(frozen=True)
class Matching:
    """Of a field of text: `Annotated[str, Matching(r"[a-z]+", "lower-case letters, such as team")]`.

    The whole text matches `pattern`; `allowed` says the same for people, with an example.
    """

    pattern: str
    allowed: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_after_validator_function(self._checked, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(schema), "pattern": f"^{self.pattern}$", "$comment": self.allowed}

    def _checked(self, text: str) -> str:
        if re.fullmatch(self.pattern, text) is None:
            # Not a ValueError, before whose message pydantic writes its own word.
            raise PydanticCustomError("form", "give {allowed}", {"allowed": self.allowed})
        return text
