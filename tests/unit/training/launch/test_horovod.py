"""What Horovod's processes are told of their places."""

from __future__ import annotations

from drivetrain.training.launch import horovod


def test_places_on_two_hosts_are_those_that_horovodrun_gives() -> None:
    places = [horovod.place(rank, 4, 2) for rank in range(4)]
    told = [[place[f"HOROVOD_{name}"] for name in ("RANK", "LOCAL_RANK", "CROSS_RANK")] for place in places]
    assert told == [["0", "0", "0"], ["1", "1", "0"], ["2", "0", "1"], ["3", "1", "1"]]
    sizes = {tuple(place[f"HOROVOD_{name}"] for name in ("SIZE", "LOCAL_SIZE", "CROSS_SIZE")) for place in places}
    assert sizes == {("4", "2", "2")}
    # Processes of one host are told by its name, which is no other host's.
    hosts = [place["HOROVOD_HOSTNAME"] for place in places]
    assert hosts[0] == hosts[1] != hosts[2] == hosts[3]
