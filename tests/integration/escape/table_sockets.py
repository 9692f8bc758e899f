"""Sockets: what is not TCP, UDP or a unix socket cannot be had, and those lead nowhere."""

from probe import Call, Look

UNIX, INET, INET6, NETLINK = 1, 2, 10, 16
STREAM, DATAGRAM, RAW, SEQPACKET, PACKET = 1, 2, 3, 5, 10
ICMP, TCP, UDP, DCCP, ICMP6, SCTP, UDPLITE, ANYTHING, MPTCP = 1, 6, 17, 33, 58, 132, 136, 255, 262
HAD = (UNIX, INET, INET6)
# Everything there is today, and some that may come.
OTHERS = [family for family in (*range(0, 64), 255, 0xFFFF) if family not in HAD and family != NETLINK]

# Some hosts have no IPv6 at all.
NOWHERE = ("ENETUNREACH", "EADDRNOTAVAIL", "EAFNOSUPPORT")

families = [
    *(Call(f"family {family}, type {kind}", "socket", (family, kind, 0), "EAFNOSUPPORT") for family in OTHERS for kind in (STREAM, RAW)),
    *(Call(f"pair of family {family}", "socketpair", (family, STREAM, 0, bytes(8)), "EAFNOSUPPORT") for family in OTHERS),
    # The same number as EOPNOTSUPP, which is what libzmq wants to see here.
    *(Call(f"netlink {protocol}", "socket", (NETLINK, RAW, protocol), "ENOTSUP") for protocol in (0, 4, 6, 7, 9, 12, 15, 16)),
    Call("family with an upper half", "socket", (0x7F << 32 | 17, RAW, 0), "EAFNOSUPPORT"),
]  # fmt: skip

protocols = [
    Call(f"family {family}, type {kind}, protocol {protocol}", "socket", (family, kind, protocol), "EPROTONOSUPPORT")
    for family in (INET, INET6)
    for kind, protocol in (
        (RAW, ICMP), (RAW, TCP), (RAW, UDP), (RAW, ICMP6), (RAW, ANYTHING), (RAW, 0), (DATAGRAM, ICMP), (DATAGRAM, ICMP6),
        (SEQPACKET, SCTP), (SEQPACKET, 0), (STREAM, SCTP), (6, DCCP), (DATAGRAM, UDPLITE), (STREAM, MPTCP), (PACKET, 0x300),
        (4, 0), (STREAM, UDP), (DATAGRAM, TCP), (RAW | 0o2000000, ICMP), (RAW | 0o4000, ICMP),
    )
]  # fmt: skip

addresses = [
    *(
        Look(f"{kind} to {address}", f"connect(({address!r}, {port}), socket.{kind})", NOWHERE)
        for kind in ("SOCK_STREAM", "SOCK_DGRAM")
        for address, port in (
            ("192.0.2.1", 80), ("8.8.8.8", 53), ("1.1.1.1", 853), ("10.0.2.2", 22), ("10.0.0.1", 443), ("172.17.0.1", 2375),
            ("192.168.0.1", 80), ("169.254.169.254", 80), ("100.100.100.200", 80), ("224.0.0.251", 5353), ("2001:db8::1", 80),
            ("2001:4860:4860::8888", 53), ("fd00:ec2::254", 80),
        )
    ),
    Look("a broadcast", "option(socket.SOL_SOCKET, socket.SO_BROADCAST, 1) or connect(('255.255.255.255', 67), 2)", "ENETUNREACH"),
    Look("link-local", "connect(('fe80::1', 80, 0, 1))", (*NOWHERE, "EINVAL")),
    *(Look(f"the name {name}", f"resolve({name!r})", ("'EAI_AGAIN'", "'EAI_NONAME'"))
      for name in ("example.org", "metadata.google.internal", "host.docker.internal", "gateway.docker.internal")),
    Look("interfaces", "sorted(name for _, name in socket.if_nameindex())", ("['lo']", "ENOTSUP")),
    Look("interfaces by /proc", "[line.split(':')[0].strip() for line in open('/proc/net/dev')][2:]", "['lo']"),
    Look("routes", "len(open('/proc/net/route').readlines()[1:])", "0"),
    Look("neighbours of the network", "len(open('/proc/net/arp').readlines()[1:])", "0"),
    Look("servers of the host's loopback",
         "[port for port in (22, 53, 111, 631, 2375, 2376, 5432, 6379, 8000, 8080, 10250) if not socket.socket().connect_ex(('127.0.0.1', port))]",
         "[]"),
]  # fmt: skip

options = [
    Look("another device", "option(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b'eth0')", "ENODEV"),
    Look("a mark", "option(socket.SOL_SOCKET, socket.SO_MARK, 1)", "EPERM"),
    Look("a priority of the network", "option(socket.SOL_SOCKET, socket.SO_PRIORITY, 7)", "EPERM"),
    Look("debugging", "option(socket.SOL_SOCKET, socket.SO_DEBUG, 1)", "EACCES"),
    Look("a larger buffer than allowed", "option(socket.SOL_SOCKET, 33, 1 << 30)", "EPERM"),
    Look("someone else's address", "option(socket.IPPROTO_IP, 19, 1)", "EPERM"),
    Look("repairing a connection", "option(socket.IPPROTO_TCP, 19, 1)", "EPERM"),
    Look("TLS in the kernel", "option(socket.IPPROTO_TCP, 31, b'tls')", "ENOPROTOOPT"),
    Look("sockets of WireGuard's kind", "option(socket.IPPROTO_TCP, 31, b'espintcp')", "ENOPROTOOPT"),
    Look("a filter of packets", "option(socket.IPPROTO_IP, 64, bytes(200))", ("EPERM", "ENOPROTOOPT")),
    Look("a program of BPF", "option(socket.SOL_SOCKET, 50, 3)", ("EBADF", "EINVAL", "EPERM")),
    Look("lo down", "control(socket.socket(), 0x8914, struct.pack('16sh14x', b'lo', 0))", "EPERM"),
    Look("an address for lo", "control(socket.socket(), 0x8916, struct.pack('16sHH4s8x', b'lo', 2, 0, bytes(4)))", "EPERM"),
    Look("a route", "control(socket.socket(), 0x890B, bytes(120))", "EPERM"),
    Look("a bridge", "control(socket.socket(), 0x89A0, bytes(16))", ("EPERM", "ENOPKG", "EINVAL", "ENOTTY")),
    Look("a low port", "socket.create_server(('127.0.0.1', 80))", "EACCES"),
    Look("a foreign process's name", "credentials(1, 1000)", "EPERM"),
    Look("root's name", "credentials(os.getpid(), 0)", ("EPERM", "EINVAL")),
]  # fmt: skip

TABLES = {"families": families, "protocols": protocols, "addresses": addresses, "options": options}
