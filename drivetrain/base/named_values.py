"""Values that a text gives to names: `API_KEY=...`, `"password": "..."`, `--token ...`.

Loaded where a text has a word of a secret's name. Placeholders, names in code and words of sentences are no values.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

# A terminal's colours, as they are and as JSON and Python write them.
_COLOUR = r"(?:(?:\x1b|\\u001b|\\x1b)\[[\d;]{0,12}m){0,3}"
# A quotation mark, also in a text in JSON in JSON.
_QUOTE = r"\\{0,7}[\"']"
_GIVES = r"[ \t]{0,3}[:=][ \t]{0,3}"
_NAME = r"(-{1,2})?([A-Za-z_][\w.-]{0,63})"
_LONGEST_NAME = 66
# What stands between a name and its value: NAME=, name: , {"name": , name['key'] =, <name>
_AFTER_NAME = (
    rf"(?:{_QUOTE}|\\{{1,7}})?\]?{_COLOUR}[ \t]{{0,8}}(?:=>|:=|->|=(?![=~])|:(?![:=])){_COLOUR}[ \t]{{0,8}}{_COLOUR}"
    r"|>(?=[^<>\n]{1,4096}</)"
)
# --name value, '--name', 'value', '--name': invalid choice: 'value'
_AFTER_FLAG = (
    rf"(?:{_AFTER_NAME})(?:invalid [a-z_]{{1,20}}(?: value)?: )?"
    rf"|[ \t]{{1,3}}(?=[^\s=:-])|{_QUOTE},\s{{0,20}}(?={_QUOTE})"
)
# NAME: and a value on the next line
_ON_THE_NEXT_LINE = rf"(?:{_QUOTE})?:[ \t]{{0,8}}(?:\r|\n|\\{{1,7}}[nr]){{1,2}}(?:[ \t]|\\{{1,7}}t){{0,16}}"
# {"name": "/a/NAME", "type": "...", "value": "..."}, {"value": "...", "name": "NAME"}
_PATH = r"(?:[\w.-]{0,40}/){0,6}"
_BEFORE_A_NAME = rf"(?i)(?<![a-z])(?:name|key)(?:{_QUOTE})?{_GIVES}(?:{_QUOTE})?{_PATH}\Z"
_SPACE = r"(?:\s|\\{1,7}[nr])"
_NEXT_FIELD = rf"(?:,{_SPACE}{{0,40}}|{_SPACE}{{1,40}})"
_FIELD = (
    rf"(?:{_QUOTE})?(?!name|key|value)[a-z_]{{1,40}}(?:{_QUOTE})?{_GIVES}"
    rf"(?:{_QUOTE}[^\"'\\\n{{}}]{{0,100}}{_QUOTE}|[\w.:/+-]{{1,60}})"
)
_AFTER_ITS_NAME = (
    rf"(?i)(?:{_QUOTE})?(?:{_NEXT_FIELD}{_FIELD}){{0,4}}{_NEXT_FIELD}"
    rf"(?:{_QUOTE})?(?:default_?)?value(?:{_QUOTE})?{_GIVES}"
)
_VALUE_BEFORE = (
    rf"(?i)value{_QUOTE}{_GIVES}{_QUOTE}([^\"'\\\n]{{1,256}}){_QUOTE}(?:{_NEXT_FIELD}{_FIELD}){{0,4}}{_NEXT_FIELD}"
    rf"{_QUOTE}(?:name|key){_QUOTE}{_GIVES}{_QUOTE}{_PATH}\Z"
)
_FAR = 400
# ("NAME", "..."), ["NAME", "..."]
_BEFORE_IN_A_TUPLE = rf"([(\[]){_QUOTE}\Z"
_AFTER_IN_A_TUPLE = rf"{_QUOTE},\s{{0,2}}(?={_QUOTE})"
# ENV NAME value, setenv NAME value, set -x NAME value
_BEFORE_IN_A_COMMAND = r"(?:(?<![A-Za-z_])|(?<=\\[nt])|\[[\d;]{0,12}m)(?:ENV|ARG|setenv|set -[a-zA-Z]{1,3})[ \t]{1,8}\Z"
_AFTER_IN_A_COMMAND = r"[ \t]{1,8}(?=[^\s=|:>-])"
# NAME | value
_IN_A_TABLE = r"[ \t]{0,80}[|\u2502\u2503][ \t]{0,80}"
_ENDS_A_CELL = r" {0,80}(?:[\t|\u2502\u2503\r\n\"'<)\[\]\x1b\\,.;}]|\Z)"
_VALUE = (
    r"[bBfFrRuU]{0,2}(?:(\\{1,7})([\"'])[^\n]{1,4096}?(?<!\\)\1\2|\"(?:[^\"\\\n]|\\.){1,4096}\"|'(?:[^'\\\n]|\\.){1,4096}')"
    r"|[^\s\"'<>{}\[\](),;&|\x1b]+"
)
# Of a variable on a line of its own, as `env` writes it, any mark belongs to the value.
_BEFORE_A_VARIABLE = r"(?:(?<![^\n])|\\n|[\"'])(?:export )?\Z"
_WORD = r"(?:[^\s\"'\x1b\\]|\\[^nrt\"'])+"
_SCHEMES = (
    r"(?i)((?:Bearer(?=[ \t]+[^\d\s]*\d)|Authorization[\"']?[ \t]{0,3}[:=][ \t]{0,3}[\"']?[A-Za-z]{3,20})[ \t]{1,3})"
    r"([\w.~+/=-]{8,})"
)
_COMMAND = r"(?:[^\n]|(?<=\\)\n){0,2000}"
_CURL_USER = (
    rf"((?<![^\s\"'])(?:-u|--user|--proxy-user|-U)(?:[ =]?(?:{_QUOTE})?|{_QUOTE},\s{{0,20}}{_QUOTE})"
    r"[^\s:\"']{0,200}:)([^\s\"'\\]+)"
)
# Words that stand where a value could.
_NO_VALUES = frozenset([
    "true", "false", "none", "null", "nil", "yes", "no", "on", "off", "undefined", "required", "missing",
    "invalid", "expired", "empty", "set", "unset", "str", "int", "float", "bool", "bytes", "any", "optional",
    "string", "self", "bearer", "basic", "digest", "negotiate", "is", "are", "was", "not", "has", "for", "in",
    "of", "and", "or", "to", "from",
])  # fmt: skip
# So far a line is looked at behind a value.
_SOON = 80
_CODE = r"[A-Za-z_][A-Za-z_.]*|(?:np|torch|numpy)\.\w+"
_PLACEHOLDER = r"[$%]?$|\$[({]|\$[A-Z_]+\b|%[({sdr]|%[A-Z_]+%|<[\w |/-]*>?$"


class Named(NamedTuple):
    """A value in a text: its name, its place, and whether the name alone says enough (of a variable, a flag, a scheme
    of HTTP)."""

    name: str
    begins: int
    ends: int
    certain: bool


def named_values(text: str, hints: Iterable[str], wanted: Callable[[str], bool]) -> Iterator[Named]:
    """The values of the names that are `wanted`, and of `Authorization: SCHEME ...`, `Bearer ...` and
    `curl -u user:...`, in the order of their places.

    Args:
        hints: in small letters; each name that is wanted has one of them in it.
    """
    found = [_of_name(text, name) for name in names(text, hints, wanted)]
    if "auth" in hints or "bearer" in hints:
        schemes = (re.compile(_SCHEMES).match(text, place) for place in _places(text, ("bearer", "authorization")))
        found += [_after(text, scheme) for scheme in schemes if scheme and _begins_a_word(text, scheme.start())]
    ends = 0
    for place in _places(text, ("curl",)) if "curl" in hints else ():
        if place >= ends and (command := re.compile(_COMMAND).match(text, place)):
            ends = command.end()
            found += [_after(text, user) for user in re.compile(_CURL_USER).finditer(text, place, ends)]
    yield from sorted((one for one in found if one is not None), key=lambda one: one.begins)


def names(text: str, hints: Iterable[str], wanted: Callable[[str], bool]) -> Iterator[re.Match[str]]:
    """The names that are `wanted`."""
    ends = 0
    for place in _places(text, hints):
        if place < ends:
            continue
        for begins in _beginnings(text, place):
            name = re.compile(_NAME).match(text, begins)
            if name and name.end() > place and wanted(name.group(2)) and not _in_an_arn(text, begins):
                yield name
                ends = name.end()
                break


def in_path(text: str, begins: int, name: str, value: str) -> str:
    """The value alone, of s3://bucket/name=value/file."""
    return value.partition("/")[0] if text.endswith(f"/{name}=", 0, begins) else value


def is_random(value: str) -> bool:
    """True of what looks like a token rather than a word, a path or an address."""
    has_digit = _has_digit(value)
    return (len(value) >= 20 and (has_digit or not {"_", "."}.intersection(value))) or (len(value) >= 8 and has_digit)


def _places(text: str, words: Iterable[str]) -> list[int]:
    small = text.replace("\u0130", "i").lower()  # the one letter whose small one is longer
    places: list[int] = []
    for word in words:
        place = small.find(word)
        while place >= 0:
            places.append(place)
            place = small.find(word, place + len(word))
    return sorted(places)


def _beginnings(text: str, place: int) -> Iterator[int]:
    """Possible beginnings of the name that has a letter at the place: an escape of JSON, a URL or a terminal may stand
    before it."""
    before = re.match(r"[\w.-]*", text[max(0, place - _LONGEST_NAME) : place][::-1])
    begins = place - (before.end() if before else 0)
    if place - begins == _LONGEST_NAME:
        return
    escape = re.compile(r"(?<=%)[0-9A-Fa-f]{2}|(?<=[\[;])\d{0,3}m|[\d.]*").match(text, begins)
    if text[begins - 1 : begins] == "\\":
        yield begins + 1
    yield escape.end() if escape else begins


def _begins_a_word(text: str, place: int) -> bool:
    return text[place].isupper() or not text[place - 1 : place].isalpha()


def _in_an_arn(text: str, place: int) -> bool:
    before = re.compile(r"\barn:[\w:-]*:\Z")
    return text[place - 1 : place] == ":" and before.search(text, max(0, place - 80), place) is not None


def _after(text: str, match: re.Match[str]) -> Named | None:
    begins, ends = match.span(2)
    return None if _says_nothing(text[begins:ends]) else Named(match.group(1), begins, ends, True)


def _of_name(text: str, name: re.Match[str]) -> Named | None:
    flag, named = name.groups()
    begins, ends = name.span()
    if between := re.compile(_ON_THE_NEXT_LINE).match(text, ends):
        return _if(_at(text, between.end(), named, ""), text, lambda value: len(value) >= 8 and _has_digit(value))
    if between := re.compile(_AFTER_FLAG if flag else _AFTER_NAME).match(text, ends):
        return _at(text, between.end(), named, between.group(), is_flag=bool(flag))
    if re.compile(_BEFORE_A_NAME).search(text, max(0, begins - 30), begins):
        if between := re.compile(_AFTER_ITS_NAME).match(text, ends):
            return _at(text, between.end(), named, "")
        if value := re.compile(_VALUE_BEFORE).search(text, max(0, begins - _FAR), begins):
            return None if _says_nothing(value.group(1)) else Named(named, *value.span(1), named.isupper())
    if re.compile(_BEFORE_IN_A_COMMAND).search(text, max(0, begins - 30), begins):
        between = re.compile(_AFTER_IN_A_COMMAND).match(text, ends)
        return _if(_at(text, between.end(), named, "", is_flag=True) if between else None, text)
    if opened := re.compile(_BEFORE_IN_A_TUPLE).search(text, max(0, begins - 9), begins):
        between = re.compile(_AFTER_IN_A_TUPLE).match(text, ends)
        value = _at(text, between.end(), named, "") if between else None
        # ("password", "username") are names of columns, ["API_TOKEN", "S3_BUCKET"] of variables.
        if value and _may_be_given(text[value.begins : value.ends], value.certain and opened.group(1) == "("):
            return value
    if text[begins - 1 : begins] != "$" and (between := re.compile(_IN_A_TABLE).match(text, ends)):
        value = _at(text, between.end(), named, "")
        if value and re.compile(_ENDS_A_CELL).match(text, value.ends):
            return _if(value, text, lambda given: named.isupper() or (len(given) >= 8 and _has_digit(given)))
    return None


def _has_digit(text: str) -> bool:
    return any(letter.isdigit() for letter in text)


def _may_be_given(value: str, certain: bool) -> bool:
    return certain or (_has_digit(value) and not (value.isupper() and value.isidentifier()))


def _if(value: Named | None, text: str, also: Callable[[str], bool] = lambda given: True) -> Named | None:
    """The value, where it is not the first word of a sentence."""
    goes_on = value is not None and re.compile(r" {1,3}[A-Za-z]").match(text, value.ends)
    return value if value is not None and not goes_on and also(text[value.begins : value.ends]) else None


def _at(text: str, place: int, named: str, between: str, *, is_flag: bool = False) -> Named | None:
    value = re.compile(_VALUE).match(text, place)
    if value is None:
        return None
    certain = is_flag or named.isupper()
    begins, ends = value.span()
    if quoted := re.match(r"[bBfFrRuU]{0,2}(\\{0,7}[\"'])", value.group()):
        begins, ends = begins + quoted.end(), ends - len(quoted.group(1))
    else:
        name = place - len(named) - 1
        if certain and between == "=" and re.compile(_BEFORE_A_VARIABLE).search(text, max(0, name - 9), name):
            value = re.compile(_WORD).match(text, place) or value
        given = value.group()
        ends = begins + len(given.rstrip("\\").rstrip(".:!?"))
    inner = text[begins:ends]
    if "->" in between and not certain and not _has_digit(inner):
        return None
    if _says_nothing(inner) or inner.lower() in named.lower() or (is_flag and ":" in between and not quoted):
        return None
    if not quoted and not is_flag and re.fullmatch(_CODE, inner):
        # A name in code, or a word of a sentence.
        rest = text[value.end() : value.end() + _SOON].partition("\n")[0]
        if certain and (" " not in between or rest[:1] not in ("(", "[")):
            return Named(named, begins, ends, certain)
        if "." in inner or rest[:1] in ("(", "[", ")", ",", "]") or (":" in between and rest.strip()):
            return None
    return Named(named, begins, ends, certain)


def _says_nothing(value: str) -> bool:
    """True of a word that says that there is a value, a variable, a file that exists, an ARN."""
    return (
        value.lower() in _NO_VALUES
        or re.match(_PLACEHOLDER, value) is not None
        or value.startswith("arn:")
        or (value.startswith("/") and os.path.exists(value))
        or (value.isupper() and value.isidentifier() and not any(letter.isdigit() for letter in value))  # in a usage
    )
