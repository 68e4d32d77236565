"""Say at once that a Spark master cannot be reached, instead of after a minute of attempts."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping

from chronicle.errors import EnvironmentFaultError

_CONNECT_SECONDS_MAX = 2.0
"""How long one host of a master may take to answer; Spark itself tries for a minute."""

_LOCAL = re.compile(r"local(\[(\*|\d+)(,\s*\d+)?\])?")
_ADDRESSES = re.compile(r"(?:spark|k8s)://(?:https?://)?(.+)")
_ADDRESS = re.compile(r"\[?([^,\[\]/]+?)\]?(?::(\d+))?/?")

_DEFAULT_PORTS = {"spark": 7077, "k8s": 443}


def check_master(master: str, environment: Mapping[str, str]) -> None:
    """Check that a Spark master is one and, where it has an address, that somebody answers there.

    Parameters
    ----------
    master
        As Spark takes it: ``local[*]``, ``spark://host:7077``, ``yarn``, ``k8s://https://host``.
    environment
        Variables of the process; ``yarn`` is found by one of them.

    Raises
    ------
    EnvironmentFaultError
        If not; within a few seconds.
    """
    if _LOCAL.fullmatch(master):
        return
    if master == "yarn":
        if not environment.keys() & {"HADOOP_CONF_DIR", "YARN_CONF_DIR"}:
            raise EnvironmentFaultError(
                "Spark master 'yarn' is found by the variable HADOOP_CONF_DIR or YARN_CONF_DIR, "
                "and neither is set; set one to the folder of the cluster's configuration"
            )
        return
    addresses = addresses_of(master)
    if not addresses:
        raise EnvironmentFaultError(
            f"'{master}' is no Spark master; take local[*], local[2], spark://host:7077, yarn or "
            "k8s://https://host:443"
        )
    reasons = [_why_unreachable(host, port) for host, port in addresses]
    if all(reasons):
        raise EnvironmentFaultError(
            f"Spark master '{master}' cannot be reached ({reasons[0]}); check its address and "
            "that it is running, or take local[*] for this machine"
        )


def addresses_of(master: str) -> list[tuple[str, int]]:
    """Return the hosts and ports that a master names; none if it is not written as one. Pure.

    >>> addresses_of("spark://a:7077,b:7078"), addresses_of("k8s://https://c"), addresses_of("x")
    ([('a', 7077), ('b', 7078)], [('c', 443)], [])
    """
    named = _ADDRESSES.fullmatch(master)
    if named is None:
        return []
    found = [_ADDRESS.fullmatch(part) for part in named[1].split(",")]
    default = _DEFAULT_PORTS[master.partition(":")[0]]
    pairs = [(part[1], int(part[2] or default)) for part in found if part is not None]
    return pairs if len(pairs) == len(found) else []


def _why_unreachable(host: str, port: int) -> str | None:
    """Return why nobody answers there; None if somebody does."""
    try:
        with socket.create_connection((host, port), timeout=_CONNECT_SECONDS_MAX):
            return None
    except (OSError, OverflowError, UnicodeError) as error:
        return f"{host}:{port}: {error.args[-1] if error.args else error}"
