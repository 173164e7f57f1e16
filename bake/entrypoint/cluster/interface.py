"""Interface: the network interface of this node's address, told to torch where it would not find it.

torch's gloo, which verl's workers use beside NCCL, asks for the address of the host's own name, and takes the loopback
where the name leads nowhere or to 127.0.1.1: nodes then cannot reach each other (seen with torch 2.13, verl 0.9.1).
"""

from __future__ import annotations

import fcntl
import ipaddress
import socket
import struct

_SIOCGIFADDR = 0x8915
"""https://man7.org/linux/man-pages/man7/netdevice.7.html"""


def gloo_environment(address: str) -> dict[str, str]:
    """GLOO_SOCKET_IFNAME for a node of this address; nothing where the host's name will do."""
    if ipaddress.IPv4Address(address).is_loopback or _name_leads_out():
        return {}
    name = interface_of(address)
    return {} if name is None else {"GLOO_SOCKET_IFNAME": name}


def interface_of(address: str) -> str | None:
    """The name of the interface that has an IPv4 address, as `eth0`."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        return next((name for _, name in socket.if_nameindex() if _address_of(name, probe) == address), None)


def _address_of(name: str, probe: socket.socket) -> str | None:
    request = struct.pack("256s", name.encode())
    try:
        answer = fcntl.ioctl(probe, _SIOCGIFADDR, request)
    except OSError:  # an interface without an IPv4 address
        return None
    return socket.inet_ntoa(answer[20:24])


def _name_leads_out() -> bool:
    try:
        return not ipaddress.IPv4Address(socket.gethostbyname(socket.gethostname())).is_loopback
    except OSError:
        return False
