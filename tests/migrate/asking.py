"""A client that asks all the time: ``python asking.py URL LOG WORKERS TOKENS``; ends when its standard input does.

One line of JSON for each request: when it began and ended (monotonic clock), status (0: none), who answered, the text.
"""

from __future__ import annotations

import json
import sys
import threading
import time
import urllib.error
import urllib.request


def ask(url: str, tokens: int) -> dict[str, object]:
    body = {"model": "tiny", "prompt": "hello", "max_tokens": tokens, "ignore_eos": True, "temperature": 0}
    request = urllib.request.Request(
        f"{url}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    began, status, server, text = time.monotonic(), 0, "", ""
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            status, server = answer.status, answer.headers.get("X-Server", "")
            text = json.loads(answer.read())["choices"][0]["text"]
    except urllib.error.HTTPError as error:
        status, text = error.code, str(error.reason)
    except (OSError, ValueError, KeyError) as error:
        status, text = 0, repr(error)
    return {"began": began, "ended": time.monotonic(), "status": status, "server": server, "text": text}


def main(url: str, log: str, workers: str, tokens: str) -> None:
    over, lock = threading.Event(), threading.Lock()

    def work() -> None:
        while not over.is_set():
            found = ask(url, int(tokens))
            with lock, open(log, "a", encoding="utf-8") as file:  # noqa: PTH123
                file.write(json.dumps(found) + "\n")
            over.wait(0.05)

    threads = [threading.Thread(target=work) for _ in range(int(workers))]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    over.set()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
