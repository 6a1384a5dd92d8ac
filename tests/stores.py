"""Stores for the tests, on loopback: S3 by moto's server, and an https server of our own."""

import datetime as dt
import http.server
import logging
import secrets
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import botocore.session
import pytest

ACCESS = {
    "AWS_ACCESS_KEY_ID": "owner",
    "AWS_SECRET_ACCESS_KEY": "never-shown-4711",
    "AWS_DEFAULT_REGION": "us-east-1",
}


@cache
def _client(endpoint: str) -> Any:
    return botocore.session.get_session().create_client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id=ACCESS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=ACCESS["AWS_SECRET_ACCESS_KEY"],
        region_name=ACCESS["AWS_DEFAULT_REGION"],
    )


@dataclass
class Bucket:
    """A fresh bucket in a server that speaks S3."""

    name: str
    environment: Mapping[str, str]

    @property
    def client(self) -> Any:
        return _client(self.environment["AWS_ENDPOINT_URL"])

    def address(self, key: str) -> str:
        return f"s3://{self.name}/{key}"

    def put(self, key: str, content: bytes) -> str:
        self.client.put_object(Bucket=self.name, Key=key, Body=content)
        return self.address(key)

    def get(self, key: str) -> bytes:
        return bytes(self.client.get_object(Bucket=self.name, Key=key)["Body"].read())

    def keys(self) -> list[str]:
        found = self.client.list_objects_v2(Bucket=self.name).get("Contents", ())
        return sorted(each["Key"] for each in found)

    def uploads(self) -> list[str]:
        found = self.client.list_multipart_uploads(Bucket=self.name).get("Uploads", ())
        return sorted(each["Key"] for each in found)


@contextmanager
def s3_server() -> Iterator[str]:
    """Run moto's server; give its address."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        _, port = server.get_host_and_port()
        yield f"http://127.0.0.1:{port}"
    finally:
        server.stop()


def environment(endpoint: str) -> dict[str, str]:
    """What the environment says to who uses the server."""
    return {**ACCESS, "AWS_ENDPOINT_URL": endpoint}


def fresh_bucket(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    for name, value in environment(endpoint).items():
        monkeypatch.setenv(name, value)
    bucket = Bucket(f"bucket-{secrets.token_hex(6)}", environment(endpoint))
    bucket.client.create_bucket(Bucket=bucket.name)
    return bucket


# --- an https server --------------------------------------------------------------------


@dataclass
class Site:
    """What an https server says: files, redirects, and whether it gives parts of files."""

    address: str
    files: dict[str, bytes] = field(default_factory=dict)
    redirects: dict[str, str] = field(default_factory=dict)
    gives_parts: bool = True
    tells_versions: bool = True
    breaks_after: int | None = None
    before: Callable[[str], None] = lambda _: None
    asked: list[str] = field(default_factory=list)


@contextmanager
def https_server(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """Run a server with a certificate of its own, which is trusted here."""
    certificate = _certificate(folder)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    site = Site("")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler(site))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    site.address = f"https://localhost:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(site: Site) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            site.asked.append(self.path)
            site.before(path)
            if path in site.redirects:
                self.send_response(302)
                self.send_header("Location", site.redirects[path])
                self.end_headers()
            elif path not in site.files:
                self.send_error(404)
            else:
                self._give(site.files[path])

        def _give(self, content: bytes) -> None:
            part, status = content, 200
            if site.gives_parts and (asked := self.headers.get("Range")):
                first, last = asked.removeprefix("bytes=").split("-")
                part, status = content[int(first) : int(last) + 1], 206
            self.send_response(status)
            if status == 206:
                end = int(first) + len(part) - 1
                self.send_header("Content-Range", f"bytes {first}-{end}/{len(content)}")
            if site.tells_versions:
                self.send_header("ETag", f'"{hash(content)}"')
            self.send_header("Content-Length", str(len(part)))
            self.end_headers()
            self.wfile.write(part[: site.breaks_after])

        def log_message(self, *_: Any) -> None:
            pass

    return Handler


def _certificate(folder: Path) -> Path:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = folder / "certificate.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    path.chmod(0o600)
    return path
