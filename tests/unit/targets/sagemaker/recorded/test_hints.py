from __future__ import annotations

from pathlib import Path

from drivetrain.targets.sagemaker.recorded.hints import hints

SCRIPT = '''\
"""Trains every night."""
# The session of this script
session = PipelineSession()

# How many machines
# prepare the data
count = ParameterInteger(name="Count")
image = retrieve("sklearn")
# Split the table
processor = Processor(image)
unused = Other()
step_prep = Step(name="Prepare", args=processor.run(count, session))
models = [Step(name=each) for each in ("A", "B")]


def made(name):
    """The gate."""
    return Step(name=name)


# Only good models
gate = made("Gate")
pipeline = Pipeline(name="nightly", steps=[Step(name="Inline")])
'''


def test_names_and_comments_are_those_of_the_statement_that_makes_a_step(tmp_path: Path) -> None:
    (file := tmp_path / "nightly.py").write_text(SCRIPT, encoding="utf-8")
    here = str(file)
    places = {
        "Count": [(here, 7)],
        "Prepare": [(here, 12)],
        "A": [(here, 13)],
        "B": [(here, 13)],
        "Gate": [(here, 18), (here, 22)],
        "Gate-RepackModel-0": [(here, 22)],
        "Inline": [(here, 23)],
        "nightly": [(here, 23)],
    }
    said = hints(places, file, "nightly")
    assert said.names == {"Count": "count", "Prepare": "step_prep", "Gate": "gate"}
    assert said.comments == {
        "Count": "How many machines\nprepare the data",
        "Prepare": "Split the table",
        "Gate": "Only good models",
    }
    assert said.docstring == "Trains every night."
    assert hints({"nightly": [(here, 18)]}, file, "nightly").docstring == "The gate."


def test_a_file_that_only_a_newer_python_reads_gives_none(tmp_path: Path) -> None:
    (file := tmp_path / "nightly.py").write_text("step = Step(\n", encoding="utf-8")
    assert hints({"Prepare": [(str(file), 1)]}, file, "nightly").names == {}
