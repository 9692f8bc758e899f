"""TLS: with real clients, with old and rude ones, with certificates that are wrong or renewed."""

import datetime
import hashlib
import ipaddress
import json
import random
import signal
import socket
import ssl
import subprocess

import pytest
import requests
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

import host
from key_client import events
from service import later, problem

GREETING = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


class Certificate:
    """A self-signed certificate and its key, as files that can be replaced."""

    def __init__(self, folder):
        self.cert, self.key = folder / "cert.pem", folder / "key.pem"
        self.renew()

    def renew(self, make_key=lambda: ec.generate_private_key(ec.SECP256R1())):
        key = make_key()
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
        names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        now = datetime.datetime.now(datetime.UTC)
        built = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=30))
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(key, hashes.SHA256())
        )
        self.serial = built.serial_number
        self.write_key(key)
        self.cert.write_bytes(built.public_bytes(serialization.Encoding.PEM))

    def write_key(self, key, encryption=None):
        if not self.key.exists():
            self.key.touch(mode=0o600)
        kind = serialization.PrivateFormat.PKCS8
        self.key.write_bytes(
            key.private_bytes(serialization.Encoding.PEM, kind, encryption or serialization.NoEncryption())
        )

    def flags(self):
        return ["--tls-cert", str(self.cert), "--tls-key", str(self.key)]


def secure(service, certificate):
    service.url = service.url.replace("http:", "https:")
    service.verify = str(certificate.cert)
    return service.start()


@pytest.fixture
def certificate(folder):
    return Certificate(folder)


@pytest.fixture(scope="module")
def shared_certificate(harness):
    folder = harness.folder / "tls"
    folder.mkdir()
    return Certificate(folder)


@pytest.fixture(scope="module")
def tls(harness, shared_certificate):
    service = secure(harness.service(*shared_certificate.flags()), shared_certificate)
    yield service
    harness.end(service)


@pytest.fixture(scope="module")
def box(tls):
    sandbox = tls.create()
    yield sandbox
    sandbox.close()


def dial(service, context=None, **versions):
    """A TLS connection; `versions` and the context decide what the client can do."""
    context = context or ssl.create_default_context(cafile=service.verify)
    for key, value in versions.items():
        setattr(context, key, value)
    raw = socket.create_connection(("127.0.0.1", service.port), 20)
    try:
        return context.wrap_socket(raw, server_hostname="localhost")
    except BaseException:
        raw.close()
        raise


def served(service):
    """The serial number of the certificate that a new connection gets; it is not checked."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with dial(service, context) as peer:
        return x509.load_der_x509_certificate(peer.getpeercert(True)).serial_number


# --- everything works as without ---


def test_greeting(tls):
    assert f"listens on https://127.0.0.1:{tls.port}" in tls.log()


def test_code_streams_and_commands(tls, box):
    assert box.execute("6 * 7")["results"][0]["data"] == "42"
    with box.stream("import time\nfor i in range(5): print(i); time.sleep(0.05)") as stream:
        events_seen = stream.rest()
    assert "".join(event.get("text", "") for event in events_seen) == "0\n1\n2\n3\n4\n"
    assert box.command("echo hello")["stdout"] == "hello\n"
    with box.command_stream("for i in 1 2 3; do echo $i; done", lines=True) as stream:
        assert stream.rest()[-1]["exit_code"] == 0


def test_large_files(tls, box):
    """Both ways, in sizes that fill every buffer; uploads suspend the connection while they wait."""
    data = random.Random(7).randbytes(24 << 20)
    put = tls.request("PUT", f"{box.path}/files/large.bin", data=data)
    assert put.status_code == 201, put.text
    back = tls.get(f"{box.path}/download/large.bin")
    assert hashlib.sha256(back.content).digest() == hashlib.sha256(data).digest()
    form = tls.post(f"{box.path}/upload", files=[("file", (f"{i}.bin", data[: 1 << 20])) for i in range(5)])
    assert form.status_code == 200 and len(form.json()["files"]) == 5, form.text
    large = box.execute("print('x' * 900_000)")["stdout"]
    assert len(large) == 900_001


def test_slow_reader(tls, box):
    with box.stream("for i in range(20_000): print(i, 'x' * 50)") as stream:
        stream.until("stdout")
        answer = later(tls.get, "/health")
        assert answer.result(20).status_code == 200
        assert stream.rest()[-1]["status"] == "ok"


def test_keep_alive_and_pipelining(tls):
    with dial(tls) as peer:
        peer.sendall(GREETING.replace(b"Connection: close\r\n", b"") * 20 + GREETING)
        received = b""
        while part := peer.recv(65536):
            received += part
    assert received.count(b'"healthy"') == 21


def test_client_that_leaves_interrupts(tls, box):
    with box.stream("import time\nprint('began')\ntime.sleep(600)") as stream:
        stream.until("stdout")
    box.until_state("ready")
    assert box.works()


def test_mcp(tls):
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    answer = tls.post("/mcp", json=message, headers={"Accept": "application/json, text/event-stream"})
    assert answer.json()["result"]["tools"]


def test_origins(tls):
    """A page that came by plain HTTP may be anybody's."""
    assert tls.get("/health", headers={"Origin": "https://localhost"}).status_code == 200
    problem(tls.get("/health", headers={"Origin": "http://localhost"}), 403, "origin_not_allowed")
    problem(tls.get("/health", headers={"Origin": "https://evil.example"}), 403, "origin_not_allowed")


def test_curl(tls):
    command = ["curl", "-sS", "--noproxy", "*", "--cacert", tls.verify, "--max-time", "30", f"{tls.url}/health"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["status"] == "healthy"


# --- what is refused ---


def openssl(service, *arguments):
    command = ["openssl", "s_client", "-connect", f"127.0.0.1:{service.port}", "-CAfile", service.verify, *arguments]
    return subprocess.run(command, input=GREETING, capture_output=True, timeout=30)


def test_openssl(tls):
    for version in ("-tls1_2", "-tls1_3"):
        done = openssl(tls, version, "-quiet", "-verify_return_error")
        assert b'"healthy"' in done.stdout, done
    for version in ("-tls1", "-tls1_1"):
        done = openssl(tls, version, "-cipher", "ALL:@SECLEVEL=0")
        assert done.returncode != 0 and b"healthy" not in done.stdout, done
    assert tls.get("/health").status_code == 200


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_versions(tls, version):
    with dial(tls, minimum_version=version, maximum_version=version) as peer:
        peer.sendall(GREETING)
        assert peer.recv(100).startswith(b"HTTP/1.1 200")


def test_weak_ciphers(private, certificate):
    """Without forward secrecy, or with padding that can be attacked, there is no connection."""
    certificate.renew(lambda: rsa.generate_private_key(public_exponent=65537, key_size=2048))
    service = secure(private(*certificate.flags()), certificate)
    for ciphers in ("AES128-SHA", "AES256-GCM-SHA384", "ECDHE-RSA-AES128-SHA"):
        context = ssl.create_default_context(cafile=service.verify)
        context.set_ciphers(f"{ciphers}:@SECLEVEL=0")
        with pytest.raises((ssl.SSLError, ConnectionError)):
            dial(service, context, maximum_version=ssl.TLSVersion.TLSv1_2)
    context = ssl.create_default_context(cafile=service.verify)
    context.set_ciphers("ECDHE-RSA-AES256-GCM-SHA384")
    dial(service, context, maximum_version=ssl.TLSVersion.TLSv1_2).close()


def test_plain_http_on_this_port(tls):
    with socket.create_connection(("127.0.0.1", tls.port), 20) as peer:
        peer.sendall(GREETING)
        received = b""
        try:
            while part := peer.recv(4096):
                received += part
        except ConnectionResetError:
            pass
    assert b"healthy" not in received
    assert tls.get("/health").status_code == 200


@pytest.mark.parametrize("data", [b"", b"\x16", b"\x16\x03\x01\x40\x00" + b"\x01" * 500, b"\x00" * 5000, b"\xff" * 5000])
def test_garbage(tls, data):
    with socket.create_connection(("127.0.0.1", tls.port), 20) as peer:
        peer.sendall(data)
    assert tls.get("/health").status_code == 200


def test_half_handshakes_block_nobody(tls, box):
    with dial(tls) as peer:
        hello = ssl.MemoryBIO()
        half = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), hello, server_hostname="localhost")
        with pytest.raises(ssl.SSLWantReadError):
            half.do_handshake()
        begun = hello.read()
        peers = [socket.create_connection(("127.0.0.1", tls.port), 20) for _ in range(100)]
        try:
            for number, slow in enumerate(peers):
                slow.sendall(begun[: 5 + number])
            assert box.works()
            peer.sendall(GREETING)
            assert peer.recv(100).startswith(b"HTTP/1.1 200")
        finally:
            for slow in peers:
                slow.close()


# --- certificates that come, go and are wrong ---


def reload(service):
    before = len(events(service, "tls"))
    service.process.send_signal(signal.SIGHUP)
    return host.until(lambda: events(service, "tls")[before:], 10, "the certificate to be read")[0]


def test_renewal(private, certificate):
    service = secure(private(*certificate.flags()), certificate)
    first = certificate.serial
    assert served(service) == first
    with dial(service) as old:
        certificate.renew()
        assert served(service) == first, "not before SIGHUP"
        assert reload(service)["level"] == "info"
        assert served(service) == certificate.serial != first
        old.sendall(GREETING)
        assert old.recv(100).startswith(b"HTTP/1.1 200"), "connections from before go on"
    # What is wrong changes nothing.
    good = certificate.cert.read_bytes()
    certificate.cert.write_text("nothing\n")
    assert "tls_cert" in reload(service)["reason"]
    certificate.cert.write_bytes(good)
    certificate.write_key(ec.generate_private_key(ec.SECP256R1()))
    assert "another key" in reload(service)["reason"]
    certificate.key.unlink()
    assert "No such file" in reload(service)["reason"]
    assert served(service) == certificate.serial
    assert service.get("/health").status_code == 200


def test_start_with_what_is_wrong(private, certificate):
    service = private(*certificate.flags())
    good = certificate.key.read_bytes()
    certificate.key.chmod(0o604)
    assert "tls_key: everybody can read" in service.fails_to_start().text
    certificate.key.chmod(0o640)
    certificate.key.write_bytes(b"")
    assert "no usable private key" in service.fails_to_start().text
    locked = serialization.BestAvailableEncryption(b"secret")
    certificate.write_key(ec.generate_private_key(ec.SECP256R1()), locked)
    assert "without a passphrase" in service.fails_to_start().text
    certificate.write_key(ec.generate_private_key(ec.SECP256R1()))
    assert "the certificate is of another key" in service.fails_to_start().text
    certificate.key.write_bytes(good)
    certificate.cert.write_bytes(b"x" * 200_000)
    assert "tls_cert: it has more than" in service.fails_to_start().text
    certificate.cert.unlink()
    assert "tls_cert: open it: No such file" in service.fails_to_start().text


def test_one_without_the_other(private, certificate):
    for flags in (certificate.flags()[:2], certificate.flags()[2:]):
        assert "go together" in private(*flags).fails_to_start().text


def test_sandboxes_survive_the_change_to_tls(private, certificate):
    """Turning TLS on is a restart, and those keep sandboxes."""
    service = private().start()
    sandbox = service.create()
    sandbox.run("x = 5")
    assert service.stop() == 0
    service.arguments += certificate.flags()
    secure(service, certificate)
    assert sandbox.value("x") == 5
    with pytest.raises(requests.exceptions.ConnectionError):
        requests.get(service.url.replace("https:", "http:") + "/health", timeout=20)
