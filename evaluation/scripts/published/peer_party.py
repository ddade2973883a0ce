"""One party of a run of somebody else's PSI: `-m published.peer_party SETTINGS`, with that library's packages.

The settings are JSON: system, rank (0 receives), port of this party and of the other, input and output. Prints, as JSON,
the seconds from the call to the result, without starting and importing, and the number of rows in common.
"""

from __future__ import annotations

import csv
import json
import socket
import struct
import sys
import time
from typing import Any

from .proxy import connected


def spu(settings: dict[str, Any]) -> tuple[float, int]:
    from spu import libpsi as psi
    from spu.libspu import link

    protocols = {
        "rr22": psi.PsiProtocol.PROTOCOL_RR22,
        "rr22-low": psi.PsiProtocol.PROTOCOL_RR22,
        "kkrt": psi.PsiProtocol.PROTOCOL_KKRT,
        "ecdh": psi.PsiProtocol.PROTOCOL_ECDH,
    }
    name = settings["system"].partition(":")[2]
    description = link.Desc()
    description.recv_timeout_ms = 600_000
    description.connect_retry_interval_ms = 50
    description.connect_retry_times = 400
    rank = settings["rank"]
    ports = [settings["port"], settings["other"]]
    for party, port in enumerate(ports if rank == 0 else reversed(ports)):
        description.add_party(f"party{party}", f"127.0.0.1:{port}")
    context = link.create_brpc(description, rank)
    config = psi.PsiExecuteConfig(
        protocol_conf=psi.PsiProtocolConfig(
            protocol=protocols[name],
            receiver_rank=0,
            ecdh_params=psi.EcdhParams(curve=psi.EllipticCurveType.CURVE_25519),
            rr22_params=psi.Rr22Rarams(low_comm_mode=name == "rr22-low"),
        ),
        input_params=psi.InputParams(
            path=settings["input"], selected_keys=["key"], keys_unique=True
        ),
        output_params=psi.OutputParams(path=settings["output"]),
    )
    start = time.monotonic()
    report = psi.psi_execute(config, context)
    took = time.monotonic() - start
    context.stop_link()
    return took, report.intersection_count


class Wire:
    """Messages with a length, over TCP: openmined.psi leaves the transport to its user."""

    def __init__(self, settings: dict[str, Any]) -> None:
        if settings["rank"] == 0:
            self.socket = connected(settings["other"])
        else:
            with socket.create_server(("127.0.0.1", settings["port"])) as listener:
                self.socket, _ = listener.accept()

    def send(self, message: bytes) -> None:
        self.socket.sendall(struct.pack(">Q", len(message)) + message)

    def receive(self) -> bytes:
        return self.exactly(struct.unpack(">Q", self.exactly(8))[0])

    def exactly(self, count: int) -> bytes:
        pieces = bytearray()
        while len(pieces) < count:
            data = self.socket.recv(min(1 << 20, count - len(pieces)))
            if not data:
                raise EOFError("the other party is gone")
            pieces += data
        return bytes(pieces)


def openmined(settings: dict[str, Any]) -> tuple[float, int]:
    import private_set_intersection.python as psi

    in_memory = settings["system"].endswith(":memory")
    wire = Wire(settings)
    start = time.monotonic()
    with open(settings["input"], newline="") as table:
        rows = list(csv.DictReader(table))
    keys = [row["key"] for row in rows]
    if in_memory:
        start = time.monotonic()
    if settings["rank"] == 1:
        server = psi.server.CreateWithNewKey(True)
        count = struct.unpack(">Q", wire.receive())[0]
        setup = server.CreateSetupMessage(0.0, count, keys, psi.DataStructure.RAW)
        wire.send(setup.SerializeToString())
        request = psi.Request()
        request.ParseFromString(wire.receive())
        wire.send(server.ProcessRequest(request).SerializeToString())
        # The client hangs up when it has its result.
        wire.socket.recv(1)
        return time.monotonic() - start, 0
    client = psi.client.CreateWithNewKey(True)
    wire.send(struct.pack(">Q", len(keys)))
    wire.send(client.CreateRequest(keys).SerializeToString())
    setup, response = psi.ServerSetup(), psi.Response()
    setup.ParseFromString(wire.receive())
    response.ParseFromString(wire.receive())
    found = sorted(client.GetIntersection(setup, response))
    if not in_memory:
        with open(settings["output"], "w", newline="") as table:
            writer = csv.DictWriter(table, fieldnames=list(rows[0]))
            writer.writeheader()
            writer.writerows(rows[index] for index in found)
    took = time.monotonic() - start
    wire.socket.close()
    return took, len(found)


def main() -> int:
    settings = json.loads(sys.argv[1])
    run = spu if settings["system"].startswith("spu:") else openmined
    seconds, matches = run(settings)
    print(json.dumps({"seconds": seconds, "matches": matches}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
