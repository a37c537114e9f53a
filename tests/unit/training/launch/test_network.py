"""Names, the interface that leads to a host, ports."""

from __future__ import annotations

import pytest

from drivetrain.training.launch import network


@pytest.mark.slow
def test_waiting_ends_when_every_name_has_an_address() -> None:
    asked: list[str] = []

    def resolve(host: str) -> str | None:
        asked.append(host)
        return None if host == "late" and asked.count("late") < 2 else "10.0.0.1"

    said: list[str] = []
    found = network.wait_for(["early", "late"], seconds=60, say=said.append, resolve=resolve)
    assert found == {"early": "10.0.0.1", "late": "10.0.0.1"}
    assert asked == ["early", "late", "late"]  # who has come is not asked for again
    assert said == ["waiting for late: no address yet after 0 s of 60 s"]


def test_waiting_ends_and_names_the_missing_hosts() -> None:
    found = network.wait_for(["a", "b", "c"], seconds=0, resolve=lambda host: None if host == "b" else "10.0.0.1")
    assert [host for host, address in found.items() if address is None] == ["b"]


@pytest.mark.parametrize(("there", "waits"), [("ab", False), ("bc", True), ("a", True)])
def test_a_range_of_hosts_waits_for_the_first_and_the_least(there: str, waits: bool) -> None:
    found = network.wait_for(
        ["a", "b", "c"], seconds=0, least=2, resolve=lambda host: "10.0.0.1" if host in there else None
    )
    enough = found["a"] is not None and sum(address is not None for address in found.values()) >= 2
    assert enough is not waits


@pytest.mark.parametrize("name", ["no-such-host.invalid", "a" * 300, "a..b"])
def test_names_that_no_host_can_have(name: str) -> None:
    assert network.resolve(name) is None


def test_the_interface_that_routes_to_an_address() -> None:
    assert network.interface_to(["127.0.0.1"]) == "lo"
    assert network.interface_to(["127.0.0.7"]) == "lo"
    assert network.interface_to(["::1"]) in ("lo", "")  # "" where IPv6 is switched off
    assert network.interface_to([]) == ""
    assert network.interface_to(["not an address", "127.0.0.1"]) == "lo"


def test_the_route_out_of_this_host_is_one_of_its_interfaces() -> None:
    addresses = {address: name for address, name in network.interface_addresses().items() if name != "lo"}
    if not addresses:
        pytest.skip("this machine has only the loopback interface")
    address, name = next(iter(addresses.items()))
    # The kernel routes to an own address over the loopback interface, from that very address.
    assert network.interface_to([address]) == name


def test_a_named_interface_is_taken_only_where_there_is_one() -> None:
    hosts = ("127.0.0.2", "127.0.0.3")
    addresses: dict[str, str | None] = {host: host for host in hosts}
    assert network.choose_interface(hosts, 0, "lo", addresses) == ("lo", "named by the platform or the user")
    found, why = network.choose_interface(hosts, 0, "eth77", addresses)
    assert found == "lo"
    assert why.startswith("'eth77' is not among this host's (")
    assert network.choose_interface(("h",), 0, "", {}) == ("lo", "one host talks to itself")
    assert network.choose_interface(hosts, 0, "", dict.fromkeys(hosts))[0] == ""
