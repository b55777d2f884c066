"""How long another client waits while one opens thousands of connections and sends nothing.

    .venv/bin/python bench/idle_connections.py --count 10000

The server of the API runs in this process with an application that answers at once, and another
process has both clients: 127.0.0.1 opens the connections, again when they are closed, and 127.0.0.2
asks once every 50 ms on a new connection. Printed are the times of its answers, the processor time,
and how many connections were open at most. With ``--tls`` the server expects a handshake.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import socket
import ssl
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import trustme

from lycosa.service.api.api_job import ApiLimits
from lycosa.service.api.slow_clients import BoundedServer, http_server

GET = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


async def answer(scope, receive, send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"alive\n"})


def ask(port: int, authority: trustme.CA | None) -> float:
    """Seconds until the answer of a new connection."""
    began = time.monotonic()
    one = socket.create_connection(("127.0.0.1", port), 30, ("127.0.0.2", 0))
    if authority is not None:
        context = ssl.create_default_context()
        authority.configure_trust(context)
        one = context.wrap_socket(one, server_hostname="127.0.0.1")
    with one:
        one.sendall(GET)
        assert one.recv(100).startswith(b"HTTP/1.1 200")
    return time.monotonic() - began


def run_clients(port: int, count: int, seconds: float, authority: trustme.CA | None) -> None:
    if os.fork() == 0:
        opened, many = 0, []
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if len(many) >= count:
                many.pop(0).close()
            with suppress(OSError):
                many.append(socket.create_connection(("127.0.0.1", port), 5))
                opened += 1
        print(f"connections opened: {opened:,}", flush=True)
        os._exit(0)
    waits = []
    for _ in range(int(seconds / 0.05)):
        waits.append(ask(port, authority))
        time.sleep(0.05)
    waits.sort()
    print(
        f"answers to the other client: {len(waits)}; median {waits[len(waits) // 2]:.3f} s,"
        f" longest {waits[-1]:.3f} s",
        flush=True,
    )
    os.wait()


def made_server(authority: trustme.CA | None) -> BoundedServer:
    if authority is None:
        return http_server(answer, ApiLimits(), "", "")
    made = authority.issue_cert("127.0.0.1")
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder, "cert.pem"), Path(folder, "key.pem")
        files[0].write_bytes(made.cert_chain_pems[0].bytes())
        files[1].write_bytes(made.private_key_pem.bytes())
        return http_server(answer, ApiLimits(), *map(str, files))


def is_running(pid: int) -> bool:
    return os.waitpid(pid, os.WNOHANG)[0] == 0


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def serve(server: BoundedServer, listener: socket.socket, begin: int, clients: int) -> None:
    """Serve until the clients have ended."""
    serving = asyncio.create_task(server._serve([listener]))
    await asyncio.sleep(0.5)
    os.write(begin, b".")
    most, longest, began = 0, 0.0, time.process_time()
    while is_running(clients):
        turn = time.process_time()
        await asyncio.sleep(0.02)
        longest = max(longest, time.process_time() - turn)
        most = max(most, descriptors())
    print(
        f"server: {time.process_time() - began:.2f} s of processor time, at most {longest:.3f} s"
        f" between two looks, each 20 ms later; {most} descriptors of"
        f" {ApiLimits().connections} connections"
    )
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)


def main(count: int, seconds: float, with_tls: bool) -> None:
    authority = trustme.CA() if with_tls else None
    server = made_server(authority)
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    begun, begin = os.pipe()
    clients = os.fork()
    if clients == 0:
        port = listener.getsockname()[1]
        listener.close()
        os.read(begun, 1)
        run_clients(port, count, seconds, authority)
        os._exit(0)
    asyncio.run(serve(server, listener, begin, clients))


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--count", type=int, default=10_000)
    options.add_argument("--seconds", type=float, default=10.0)
    options.add_argument("--tls", action="store_true")
    asked = options.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(asked.count + 200, hard), hard))
    main(asked.count, asked.seconds, asked.tls)
