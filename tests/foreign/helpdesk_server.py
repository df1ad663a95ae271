"""The help desk behind an OpenAI-like chat endpoint, which knows nothing of mtrag_nb and does its own retrieval.

python helpdesk_server.py documents.jsonl [--fault STAGE] [--field citations] [--trouble busy|broken|drop|slow|dead]

Prints its port. --field says where its replies have the passages: citations, documents, sources, context or annotations.
--trouble: every third question is answered by 429 or 500, or is cut off, or comes after two seconds, when it is asked first;
dead: 500 is all it answers.
"""

import argparse
import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from helpdesk import Desk, Page

parser = argparse.ArgumentParser()
parser.add_argument("documents")
parser.add_argument("--fault", default="")
parser.add_argument("--field", default="citations")
parser.add_argument("--trouble", default="")
ASKED = parser.parse_args()
DESK, LOCK, COUNT = (
    Desk(ASKED.documents, ASKED.fault),
    threading.Lock(),
    {"now": 0, "most": 0, "all": 0},
)


def passage(p: Page) -> dict:
    return {
        "citations": {"title": p.heading, "content": p.body},
        "documents": {
            "id": f"page-{p.number}",
            "text": p.body,
            "metadata": {"title": p.heading},
        },
        "sources": {
            "source": {"name": p.heading},
            "document": [p.body],
            "metadata": [{}],
        },
        "context": {"citations": {"title": p.heading, "content": p.body}},
        "annotations": {
            "type": "url_citation",
            "url_citation": {
                "url": f"https://desk.example/{p.number}",
                "content": p.body,
            },
        },
    }[ASKED.field]


def reply_to(messages: list[dict]) -> dict:
    response = DESK.ask([m["content"] for m in messages])
    message, body = (
        {"role": "assistant", "content": response.message},
        {"object": "chat.completion"},
    )
    cited = [passage(p) for p in response.used]
    if ASKED.field == "context":
        message["context"] = {"citations": [c["citations"] for c in cited]}
    elif ASKED.field == "annotations":
        message["annotations"] = cited
    else:
        body[ASKED.field] = cited
    return body | {
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]
    }


SEEN: set[str] = set()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.answer(200, COUNT)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with LOCK:
            COUNT["all"] += 1
            COUNT["now"] += 1
            COUNT["most"] = max(COUNT["most"], COUNT["now"])
            asked = len(SEEN)
            SEEN.add(str(body["messages"]))
            third = len(SEEN) > asked and asked % 3 == 2
        try:
            time.sleep(2 if third and ASKED.trouble == "slow" else 0.01)
            if third and ASKED.trouble == "drop":
                self.send_response(200)
                self.send_header("Content-Length", "1000")
                self.end_headers()
                self.wfile.write(b'{"choices": [')
                self.close_connection = True
            elif third and ASKED.trouble in ("busy", "broken"):
                self.answer(429 if ASKED.trouble == "busy" else 500, {"error": "later"})
            elif ASKED.trouble == "dead":
                self.answer(500, {"error": "never"})
            else:
                self.answer(200, reply_to(body["messages"]))
        finally:
            with LOCK:
                COUNT["now"] -= 1

    def answer(self, status: int, body: dict) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args) -> None:
        "Nothing on the screen."


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
