"""The command line of the train program: the folders, and every field of Config, with their docstrings as help."""

from __future__ import annotations

from drivetrain.training.command_line import Parser
from drivetrain.training.loop.config import Config, Folders


def parser(description: str | None) -> Parser:
    built = Parser(
        program="drivetrain.training_scripts.train",
        description=description,
        usage="--train FOLDER --model FOLDER --recipe NAME [OPTION ...]",
    )
    built.add_fields(Folders, metavar="FOLDER")
    built.add_fields(Config)
    return built
