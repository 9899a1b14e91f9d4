#!/usr/bin/env python3
"""Check that Chromium plays DDRA files: python tests/check_browser.py [CHROMIUM].

A page loads each file into a video element, seeks to many times, draws what is shown to a canvas
and reads the number in the picture. Not part of the default tests. Needs `make encoder` and
Chromium, which on Debian is the package chromium.
"""

from __future__ import annotations

import json
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import media

from sparseframes import transcode

FRAMES, FPS = 150, media.FPS
KINDS = {
    "h264": 'video/mp4; codecs="avc1.64000a"',
    "hevc": 'video/mp4; codecs="hvc1.1.6.L93.B0"',
}
FLAGS = """
    --headless --no-sandbox --disable-gpu --disable-quic --no-first-run
    --disable-background-networking --disable-component-update --disable-sync
    --autoplay-policy=no-user-gesture-required
"""
PAGE = """<!doctype html><video id="v" muted></video><canvas id="c"></canvas><script>
const FPS = %d, FRAMES = %d, NAME = %s, KIND = %s;
const video = document.getElementById("v"), canvas = document.getElementById("c");
const once = (name) => new Promise((done) => video.addEventListener(name, done, {once: true}));
const tell = (what) => fetch("/told", {method: "POST", body: JSON.stringify(what)});
function number() {
  canvas.width = video.videoWidth; canvas.height = video.videoHeight;
  const context = canvas.getContext("2d");
  context.drawImage(video, 0, 0);
  const y = Math.max(2, Math.floor(6 * canvas.height / 96));
  let bits = 0;
  for (let k = 0; k < 8; k++) {
    const pixel = context.getImageData(Math.floor((k + 0.5) * canvas.width / 8), y, 1, 1).data;
    if (pixel[0] + pixel[1] + pixel[2] > 375) bits |= 1 << k;
  }
  return bits;
}
// "seeked" may come before the new picture is on the screen: wait until one of that time is
function shown(k) {
  return new Promise((done) => {
    const look = (now, frame) => {
      if (Math.floor(frame.mediaTime * FPS + 0.01) == k) done();
      else video.requestVideoFrameCallback(look);
    };
    video.requestVideoFrameCallback(look);
  });
}
async function seek(k) {
  const both = [once("seeked"), shown(k)];
  video.currentTime = (k + 0.5) / FPS;
  await Promise.all(both);
}
async function run() {
  const read = [];
  if (!video.canPlayType(KIND)) {
    await tell({error: "unsupported", read});
    return;
  }
  const bad = new Promise((resolve) => {
    video.onerror = () => resolve("error " + video.error.code + " " + video.error.message);
  });
  const good = (async () => {
    video.src = NAME;
    await once("loadeddata");
    for (let i = 0; i < 40; i++) {
      const k = (i * 67 + 3) %% FRAMES;
      await seek(k);
      read.push([k, number()]);
    }
    await seek(FRAMES - 12);
    const played = [once("ended"), shown(FRAMES - 1)];
    video.play();
    await Promise.all(played);
    return "";
  })();
  const error = await Promise.race([bad, good]);
  await tell({error, read, last: error ? -1 : number()});
}
run().catch((error) => tell({error: String(error), read: []}));
</script>
"""


class Handler(BaseHTTPRequestHandler):
    """Serves the page and the files, with ranges, and takes what the page has to say."""

    protocol_version = "HTTP/1.1"

    def __init__(self, folder: Path, told: queue.Queue[dict[str, Any]], *arguments: Any) -> None:
        self.folder, self.told = folder, told
        super().__init__(*arguments)

    def do_GET(self) -> None:
        name = self.path.lstrip("/")
        if name.startswith("page/"):
            file = name.removeprefix("page/")
            kind = KINDS[file.partition("_")[0]]
            page = PAGE % (FPS, FRAMES, json.dumps("/" + file), json.dumps(kind))
            self.answer(200, page.encode(), "text/html")
            return
        path = self.folder / name
        if not re.fullmatch(r"\w+\.mp4", name) or not path.exists():
            self.answer(404, b"", "text/plain")
            return
        data = path.read_bytes()
        match = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if match is None:
            self.answer(200, data, "video/mp4", {"Accept-Ranges": "bytes"})
            return
        first, last = int(match[1]), min(int(match[2] or len(data) - 1), len(data) - 1)
        headers = {"Content-Range": f"bytes {first}-{last}/{len(data)}", "Accept-Ranges": "bytes"}
        self.answer(206, data[first : last + 1], "video/mp4", headers)

    def do_POST(self) -> None:
        self.told.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.answer(200, b"", "text/plain")

    def answer(
        self, code: int, data: bytes, kind: str, headers: dict[str, str] | None = None
    ) -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        pass


def ask(chromium: str, url: str, told: queue.Queue[dict[str, Any]]) -> dict[str, Any]:
    """Load the page in a browser of its own, until it says what it has seen."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [chromium, *FLAGS.split(), f"--user-data-dir={profile}", url],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            return told.get(timeout=300)
        except queue.Empty:
            return {"error": "no answer", "read": []}
        finally:
            process.terminate()
            process.wait()


def main() -> int:
    """Make the files, show them, compare."""
    chromium = sys.argv[1] if len(sys.argv) > 1 else shutil.which("chromium")
    if not chromium:
        print("chromium is not installed", file=sys.stderr)
        return 2
    told: queue.Queue[dict[str, Any]] = queue.Queue()
    faults = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = folder / "source.mp4"
        media.encode(source, numbers=range(FRAMES), size=(128, 96), crf="10", preset="ultrafast")
        server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, folder, told))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for codec in ("h264", "hevc"):
            for idr in (0, 2):
                path = folder / f"{codec}_idr{idr}.mp4"
                transcode(source, path, codec, 32, idr=idr, preset="veryfast", threads=1)
                url = f"http://127.0.0.1:{server.server_port}/page/{path.name}"
                seen = ask(chromium, url, told)
                wrong = [(k, number) for k, number in seen["read"] if k != number]
                fault = seen["error"] or (f"wrong: {wrong}" if wrong else "")
                if not fault and seen["last"] != FRAMES - 1:
                    fault = f"played to frame {seen['last']}"
                if codec == "hevc" and fault == "unsupported":
                    print(f"{path.name:16} this browser has no HEVC decoder", flush=True)
                    continue
                faults += bool(fault)
                shown = fault or f"right at {len(seen['read'])} times, and played to its end"
                print(f"{path.name:16} {shown}", flush=True)
        server.shutdown()
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
