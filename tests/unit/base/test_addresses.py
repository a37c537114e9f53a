"""Which texts are addresses of services; why others are none."""

from __future__ import annotations

import pytest

from drivetrain.base.addresses import address_problem


@pytest.mark.parametrize(
    "address",
    [
        "http://ml-pipeline.kubeflow:8888",
        "https://kubeflow.example.com/pipeline",
        "https://kubeflow.example.com./pipeline/",
        "http://10.1.2.3:65535",
        "http://[fd00::7]:9000/x",
        "https://xn--mnchen-3ya.example",
        "http://my_service.team-a.svc.cluster.local",
        "HTTPS://Example.COM",
    ],
)
def test_valid_addresses_are_accepted(address: str) -> None:
    assert address_problem(address) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "does not begin with http"),
        ("ftp://host", "does not begin with http"),
        ("kubeflow.example.com", "does not begin with http"),
        ("http://", "it has no valid host"),
        ("http://:8080", "it has no valid host"),
        ("http:///path", "it has no valid host"),
        ("http://-host", "it has no valid host"),
        ("http://a..b", "it has no valid host"),
        (f"http://{'a' * 64}.example", "it has no valid host"),
        (f"http://{'a.' * 130}example", "it has no valid host"),
        ("http://[::1/", "an unpaired bracket"),
        ("http://::1]/", "an unpaired bracket"),
        ("http://[::zz]/", "no IPv6 address"),
        ("http://münchen.example", "letters beyond ASCII"),
        ("http://host/ü", "letters beyond ASCII"),
        ("http://host:0", "port is no number from 1 to 65535"),
        ("http://host:65536", "port is no number from 1 to 65535"),
        ("http://host:http", "port is no number from 1 to 65535"),
        ("http://host:-1", "port is no number from 1 to 65535"),
        ("http://a b", "a space or a line break"),
        ("http://host\n", "a space or a line break"),
        ("http://me:secret@host", "a user, a query or a fragment"),
        ("http://host?a=b", "a user, a query or a fragment"),
        ("http://host/#x", "a user, a query or a fragment"),
    ],
)
def test_invalid_addresses_are_refused_with_a_reason(text: str, said: str) -> None:
    problem = address_problem(text)
    assert problem is not None and said in problem
