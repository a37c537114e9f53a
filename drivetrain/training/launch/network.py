"""How this host finds the others: names, the interface that leads to them, ports."""

from __future__ import annotations

import fcntl
import ipaddress
import socket
import struct
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

_IPV6_ADDRESSES = Path("/proc/net/if_inet6")
_SIOCGIFADDR = 0x8915  # netdevice(7)
_PAUSE_S = 1.0  # a name server cannot be waited on, only asked again


def resolve(host: str) -> str | None:
    """The address of a host; None where its name has none (yet)."""
    try:
        return str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])
    except (socket.gaierror, UnicodeError):  # the latter: no host can have such a name
        return None


def wait_for(
    hosts: Sequence[str],
    *,
    seconds: float,
    least: int = 0,
    say: Callable[[str], None] | None = None,
    resolve: Callable[[str], str | None] = resolve,
) -> dict[str, str | None]:
    """Wait until every host's name has an address, or until `seconds` have passed; the addresses, None where missing.

    With `least` it is enough that so many have one, the first among them. Hosts that are still missing are named
    through `say`, at first at once and then less and less often.
    """
    started = time.monotonic()
    addresses = {host: resolve(host) for host in hosts}
    told, pause = 0.0, 5.0
    while missing := [host for host, address in addresses.items() if address is None]:
        waited = time.monotonic() - started
        enough = 0 < least <= len(hosts) - len(missing) and addresses[hosts[0]] is not None
        if enough or waited >= seconds:
            break
        if say is not None and waited >= told:
            shown = ", ".join(missing[:8]) + (f" and {len(missing) - 8} more" if len(missing) > 8 else "")
            say(f"waiting for {shown}: no address yet after {waited:.0f} s of {seconds:.0f} s")
            told, pause = waited + pause, 2 * pause
        time.sleep(min(_PAUSE_S, seconds - waited))
        addresses |= {host: resolve(host) for host in missing}
    return addresses


def interface_to(addresses: Sequence[str]) -> str:
    """The network interface of the route to the first reachable of `addresses`; "" if none has a route.

    A UDP socket that is connected sends nothing; the kernel only chooses the route.
    """
    own = interface_addresses()
    for address in addresses:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((address, 9))
                source = probe.getsockname()[0]
        except OSError:  # no route there
            continue
        # The source address of a loopback route may be any of 127.0.0.0/8, which no interface lists.
        found = own.get(source) or ("lo" if ipaddress.ip_address(source.partition("%")[0]).is_loopback else "")
        if found:
            return found
    return ""


def interface_addresses() -> dict[str, str]:
    """Each address of this host -> the name of its interface."""
    found: dict[str, str] = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode()[:15])
            try:
                answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)
            except OSError:  # it has no IPv4 address
                continue
            found[socket.inet_ntoa(answer[20:24])] = name
    try:
        lines = _IPV6_ADDRESSES.read_text(encoding="ascii").splitlines()
    except OSError:  # IPv6 is switched off
        return found
    for line in lines:
        words = line.split()
        found[str(ipaddress.IPv6Address(int(words[0], 16)))] = words[-1]
    return found


def choose_interface(
    hosts: Sequence[str], host_index: int, named: str, addresses: Mapping[str, str | None]
) -> tuple[str, str]:
    """The interface over which this host reaches the others, and why it is that one.

    In this order: the named interface, if this host has it; the loopback interface if there is only one host; the
    interface of the route to another host. "" if none is found: gloo and NCCL then look for themselves.
    """
    available = {name for _, name in socket.if_nameindex()}
    if named and named in available:
        return named, "named by the platform or the user"
    note = f"{named!r} is not among this host's ({', '.join(sorted(available))}); " if named else ""
    if len(hosts) == 1:
        return "lo", f"{note}one host talks to itself"
    others = [address for host, address in addresses.items() if address and host != hosts[host_index]]
    if found := interface_to(others):
        return found, f"{note}the route to the other hosts"
    return "", f"{note}no route to another host was found"


def say(text: str) -> None:
    print(f"launcher: {text}", file=sys.stdout, flush=True)
