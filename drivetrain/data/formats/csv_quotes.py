"""Quotes of a CSV file, checked beside the parser.

Arrow reads `"abc"def` as abcdef, and a quote that is not closed as a cell that goes on to the next quote, or to the end
of the file. Both change values silently, so they are looked for here, by the rules of RFC 4180: a quoted cell begins
right after a delimiter or line end, ends right before one, and a quote within it is doubled. A quote within a cell that
does not begin with one (`5" pipe`) is kept by every reader, and is allowed.

Blocks whose quotes alternate between the beginnings and ends of cells are checked by numpy: 1 ms a MiB of quoted cells,
0.1 ms where there are no quotes. Only in other blocks are quotes visited one by one: 0.1 microseconds each.
"""

from __future__ import annotations

from typing import Any

from drivetrain.data.arrow import numpy

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_QUOTE, _LINE_END, _CARRIAGE_RETURN = ord('"'), ord("\n"), ord("\r")
# A quoted cell that holds so many whole lines, each with as many delimiters as the header, has swallowed rows.
SWALLOWED_LINES = 10
# A cell of more lines is worth a warning, whatever they look like.
MANY_LINES = 1000


class QuoteCheck:
    """A check of a file's quotes, block by block.

    Args:
        delimiter: what separates cells, one ASCII character.
        num_columns: of the header.
    """

    def __init__(self, delimiter: str, num_columns: int) -> None:
        self.malformed = ""
        """The problem of a quote, with the text around it; empty if no quote has one."""
        self.splits_line_end = False
        """True if a block ends within a line end of two bytes that is part of a cell."""
        self.swallows = False
        """True if a quoted cell looks as if it holds rows of the table."""
        self.has_many_lines = False
        """True if a quoted cell has more than MANY_LINES lines."""
        self._delimiter = delimiter.encode()
        self._num_columns = num_columns
        # A shorter cell cannot hold so many such lines.
        self._least_bytes = SWALLOWED_LINES * max(2, num_columns)
        self._inside = False
        self._last = _LINE_END
        self._held = b""
        self._begun = b""
        self._at_start = True
        np = numpy()
        self._ends_cell = np.zeros(256, bool)
        self._ends_cell[[ord(delimiter), _LINE_END, ord("\r"), _QUOTE]] = True

    def add(self, block: Any) -> None:
        """Look at the next bytes, an object with the buffer protocol."""
        if self.malformed:
            return
        np = numpy()
        if self._at_start:
            self._at_start = False
            if bytes(block[:3]) == BYTE_ORDER_MARK:
                block = block[3:]
        if self._held:  # quotes at the end of a block wait for what follows them
            block, self._held = self._held + bytes(block), b""
        data = np.frombuffer(block, "u1")
        if len(data) and data[-1] == _QUOTE:
            self._held = b'"' * (len(data) - len(bytes(block).rstrip(b'"')))
            data = data[: len(data) - len(self._held)]
        if len(data):
            self._check(data, np.flatnonzero(data == _QUOTE))
            self._last = int(data[-1])

    def read(self, stream: Any, block: bytearray) -> int:
        """Look at the next bytes of a pyarrow stream, at most as many as `block` takes, which holds them meanwhile."""
        count = stream.readinto(block)
        if count and self._inside and self._last == _CARRIAGE_RETURN and block[0] == _LINE_END:
            self.splits_line_end = True
        self.add(memoryview(block)[:count])
        return count

    def finish(self, stream: Any, block: bytearray) -> None:
        """Look at all that is left in a stream."""
        while self.read(stream, block):
            pass
        self.end()

    def end(self) -> None:
        """Say that the file ends here, as if by a line end."""
        self.add(b"\n")
        if self._inside and not self.malformed:
            self.malformed = "the quote at the beginning of a cell has none at its end, up to the end of the file"

    def holds_rows(self, cell: bytes) -> bool:
        """Return True if a cell looks as if an open quote had swallowed rows: its whole lines, and there are
        some, all have as many delimiters as the header."""
        lines = cell.split(b"\n")[1:-1]
        commas = self._num_columns - 1
        return (
            commas > 0
            and len(lines) >= SWALLOWED_LINES
            and all(line.count(self._delimiter) == commas for line in lines)
        )

    def _check(self, data: Any, places: Any) -> None:
        np = numpy()
        first = int(self._inside)  # the index of the first quote that begins a cell
        opening, closing = places[first::2], places[1 - first :: 2]
        begins = np.array([self._ends_cell[self._last]]) if len(opening) and opening[0] == 0 else None
        before = self._ends_cell[data[opening - 1]]  # of place 0 the last byte, which is replaced
        if begins is not None:
            before[0] = begins[0]
        if before.all() and self._ends_cell[data[closing + 1]].all():
            self._look_into_cells(data, opening, closing)
            self._inside = bool((len(places) + first) % 2)
        else:
            self._visit(data, places)

    def _visit(self, data: Any, places: Any) -> None:
        """The same, quote by quote: some of them are within cells that are not quoted, or one is wrong."""
        np = numpy()
        opening: list[int] = []
        closing: list[int] = []
        doubled = -1
        for place in places.tolist():
            if place == doubled:
                continue
            if not self._inside:
                before = int(data[place - 1]) if place else self._last
                if before != _QUOTE and self._ends_cell[before]:
                    self._inside = True
                    opening.append(place)
            elif data[place + 1] == _QUOTE:
                doubled = place + 1
            elif self._ends_cell[data[place + 1]]:
                self._inside = False
                closing.append(place)
            else:
                self.malformed = f"the cell ends with the second quote of {_around(data, place)}, but text follows it"
                return
        self._look_into_cells(data, np.array(opening, int), np.array(closing, int))

    def _look_into_cells(self, data: Any, opening: Any, closing: Any) -> None:
        """Look for lines in cells, or in their parts between doubled quotes. `opening` and `closing` alternate."""
        np = numpy()
        if self._begun and len(closing):
            self._look_into(self._begun + data[: closing[0]].tobytes())
        if self._begun and not len(closing):
            opening = opening[:0]
        whole = closing[1:] if len(closing) and (not len(opening) or closing[0] < opening[0]) else closing
        starts = opening[: len(whole)]
        if len(starts) and (whole - starts).max() >= self._least_bytes:
            line_ends = np.flatnonzero(data == _LINE_END)
            lines = np.searchsorted(line_ends, whole) - np.searchsorted(line_ends, starts)
            for index in np.flatnonzero(lines > SWALLOWED_LINES).tolist():
                self._look_into(data[starts[index] + 1 : whole[index]].tobytes())
        if len(opening) > len(whole):
            self._begun = data[opening[-1] + 1 :].tobytes()
        elif len(closing):
            self._begun = b""

    def _look_into(self, cell: bytes) -> None:
        self.swallows = self.swallows or self.holds_rows(cell)
        self.has_many_lines = self.has_many_lines or cell.count(b"\n") > MANY_LINES


def _around(data: Any, place: int) -> str:
    """The text around a quote, for messages: from the quote before it, where that is near."""
    before = data[max(0, place - 40) : place].tobytes()
    start = max(before.rfind(b'"'), 0)
    after = data[place : place + 12].tobytes().splitlines()[0]
    return repr((before[start:] + after).decode("utf-8", "replace"))
