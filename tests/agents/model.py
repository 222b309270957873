"""What the scripted models have in common: the script of acts, and a server on the loopback that streams events.

`python3 messages.py SCRIPT LOG PORT READY`: READY is made when it listens; at the port after it somebody listens and says nothing.
SCRIPT is a list of acts as JSON, each an object:

    {"act": "read", "path"}                 {"act": "shell", "command"}
    {"act": "write", "path", "text"}        {"act": "edit", "path", "old", "new"}

An agent asks what to do next and sends all that was done so far along, so that a model has nothing to remember: the next act
is the one whose number is the count of results it is shown. After the last one it says "done". LOG gets a JSON object a line
for each request: which act was asked for, or none, and what the agent told of the one before.
"""

import http.server
import json
import socket
import sys
import threading

LOCK = threading.Lock()


class Model:
    """The script, and where its requests are noted."""

    def __init__(self, script, log):
        with open(script) as file:
            self.acts = json.load(file)
        self.log = log

    def next(self, results):
        """The act after these results, each a text; none when all were done."""
        act = self.acts[len(results)] if len(results) < len(self.acts) else None
        self.note(act=act, told=results[-1] if results else None)
        return act

    def note(self, **what):
        with LOCK, open(self.log, "a") as file:
            file.write(json.dumps(what) + "\n")


def text_of(content):
    """The text of a message's content, which is a text or a list of parts."""
    if isinstance(content, str):
        return content
    return "".join(part.get("text") or "" for part in content or [])


def serve(paths):
    """Answers POST requests to each path with what its function says of the request: pairs of a name and data. A name that is
    None is left out."""
    script, log, port, ready = sys.argv[1:5]
    model = Model(script, log)

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path = self.path.split("?")[0]
            if path not in paths:
                model.note(unknown=path)
                return self.answer(404, "application/json", b'{"error":{"type":"not_found_error","message":"no"}}')
            events = paths[path](model, json.loads(body))
            if isinstance(events, dict):
                return self.answer(200, "application/json", json.dumps(events).encode())
            lines = []
            for name, data in events:
                named = f"event: {name}\n" if name else ""
                lines.append(f"{named}data: {data if isinstance(data, str) else json.dumps(data)}\n\n")
            return self.answer(200, "text/event-stream", "".join(lines).encode())

        def do_GET(self):
            model.note(unknown="GET " + self.path)
            self.answer(404, "application/json", b"{}")

        def do_HEAD(self):
            self.answer(200, "application/json", b"")

        def answer(self, code, kind, body):
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    class Server(http.server.ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 64

    server = Server(("127.0.0.1", int(port)), Handler)
    silent = socket.create_server(("127.0.0.1", int(port) + 1))
    with open(ready, "w"):
        pass
    with silent:
        server.serve_forever()
