"""What is shown of one checkpoint, and which one is meant."""

from __future__ import annotations

import json

from tests.unit.training.checkpointing.inspection.program import HISTORY, TENSORS, Program, rows


def test_show(program: Program, made) -> None:
    made.save(20, TENSORS, metrics=HISTORY[1], state={"history": HISTORY}, consumed=640)
    made.store.place.replace(
        "attempts/00001.json",
        b'{"number": 1, "started": 100.0, "time": 160.0, "first_step": 0, "step": 20, "saves": 2, "ended": null}',
    )
    text = program("show", made.folder)
    found = rows(text)
    assert text.startswith("step 20  ")
    assert found["model/0.weight"].split() == ["model/0.weight", "float32", "3", "x", "4", "2"]
    assert found["optimizer/0.weight//step"].split() == ["optimizer/0.weight//step", "float32", "a", "number", "1"]
    assert "state.json" in found and "consumed" in found
    assert "epoch 2, step 20, validation_loss 0.2500" in text
    assert found["1"].split()[-4:] == ["interrupted,", "or", "at", "work"] and "0 to 20" in found["1"]
    shown = program.json("show", made.folder / "step-00000020")
    assert shown["tensors"][0]["parts"] == 2 and shown["attempts"][0]["saves"] == 2
    assert shown["metrics"] == {"validation_loss": 0.25} and shown["values"]["consumed"] == 640


def test_show_without_an_index(program: Program, made) -> None:
    """Another framework's checkpoint, committed through the store."""
    made.save(3, index=False)
    assert program.json("show", made.folder, "3")["tensors"] == []
    assert "another program than our training wrote it" in program.error(
        "export", made.folder, "--out", "w.safetensors"
    )


def test_newest_is_the_newest_complete_checkpoint(program: Program, three) -> None:
    (three.save(200, TENSORS) / "state.json").unlink()
    assert program.json("show", three.folder)["step"] == 100
    assert program.err.startswith("note: step 200 is incomplete (1 of 5 files are missing (state.json)); the newest")
    assert program.json("show", three.folder, "best")["step"] == 20
    assert program.json("verify", three.folder, code=1)[0]["step"] == 200


def test_a_missing_step_is_refused(program: Program, three) -> None:
    said = program.error("show", three.folder, 98)
    assert "no checkpoint of step 98" in said and "The closest is 100. There are: 100, 20, 10." in said
    assert "'last' is no checkpoint" in program.error("show", three.folder, "last")
    assert "Give one of the two" in program.error("verify", three.folder, "10", "--all")
    assert program.json("show", three.folder, "step-00000010")["step"] == 10


def test_a_start_that_has_a_successor_was_interrupted(program: Program, three) -> None:
    for number, ended in ((1, None), (2, "finished"), (3, None)):
        attempt = {"number": number, "started": 100.0, "time": 160.0, "first_step": 0, "step": 20, "ended": ended}
        three.store.place.replace(f"attempts/{number:05d}.json", json.dumps(attempt).encode())
    found = rows(program("show", three.folder))
    assert found["1"].endswith("  interrupted") and found["2"].endswith("  finished")
    assert found["3"].endswith("  interrupted, or at work")
