"""The comparison: workers, a seeded order of blocks, and a file of records that can be resumed."""

from __future__ import annotations

import hashlib
import json
import random
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.clips import Clip
from bench.patterns import FOUR, WHOLE, requests
from bench.peers import Peers
from bench.reference import Reference

OURS = ("sparseframes", "sparseframes saved", "sparseframes warm", "sparseframes kept")
"""cold; cold with a saved index; open before; open before, and pictures of earlier requests kept"""
LEROBOT = "sparseframes lerobot"
"""cold, as `sparseframes.lerobot` reads"""
PEERS = (
    "pyav",
    "torchcodec exact",
    "torchcodec approximate",
    "decord2",
    "decord",
    "opencv",
    "video-reader-rs",
)
WARM_PEERS = ("pyav warm", "torchcodec approximate warm")
"""opened before, as LeRobot's cache of decoders has them"""
SHORT_PERIOD = 8
"""of the DDRA clips that tell what one frame costs"""
PATTERNS_OF = {
    "lerobot-joined": ("window", "single"),
    "ddra-fast": ("window", "single"),
    "ddra-idr": ("window", "single"),
    "ddra": (*FOUR, "single"),
    "jpeg": (*FOUR, "single"),
}
"""What is asked of clips of some groups; all patterns of the others."""


def worker_of(arm: str) -> tuple[str, str]:
    """The worker that an arm runs in, and its mode."""
    if arm == "sparseframes kept":
        return arm, "warm"
    return arm.removesuffix(" warm"), "warm" if arm.endswith(" warm") else "cold"


def arms_of(clip: Clip) -> list[str]:
    """The arms that read a clip."""
    if clip.group == "jpeg":
        return ["jpeg"]
    if clip.group == "lerobot-joined":
        return [*OURS[:3], LEROBOT, "pyav", *PEERS[1:3], *WARM_PEERS]
    if clip.group == "ddra":
        # other loaders decode such a file from its start, of which one period shows enough
        return [*OURS, *(PEERS[1:3] if clip.facts["period"] == SHORT_PERIOD else ())]
    if clip.group in ("ddra-fast", "ddra-idr"):
        return [*OURS, "pyav", *PEERS[1:3]]
    arms = [*OURS, *PEERS]
    if clip.codec == "av1":
        # decord's FFmpeg is older than AV1 decoders
        arms = [arm for arm in arms if arm != "decord"] + list(WARM_PEERS)
    if clip.group == "lerobot":
        arms.append(LEROBOT)
    return arms


class Process:
    """A worker that was started, or the reason why it could not be."""

    def __init__(self, name: str, peers: Peers, log: Path) -> None:
        self.name = name
        # one process for each of cold and warm: their peaks of memory differ
        arm = name.removesuffix(" warm")
        command, environment = peers.command(arm)
        with log.open("ab") as errors:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment,
                text=True,
            )
        self.facts = self._answer()
        self.error: str | None = self.facts.get("error")

    def ask(self, command: dict[str, Any]) -> dict[str, Any]:
        """Send a command and wait for what it gives."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(command) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return {"error": f"the worker ended with status {self.process.wait()}"}
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            return {"error": f"the worker ended with status {self.process.wait()}"}
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """End the worker."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()


@dataclass(frozen=True)
class Block:
    """Requests of one pattern of one clip, which all of its arms answer one after another."""

    number: int
    clip: Clip
    pattern: str
    requests: list[list[int]]
    arms: list[str]

    @property
    def key(self) -> str:
        """What tells it from the others."""
        return f"{self.clip.name}/{self.pattern}/{self.number}"


def plan(
    clips: list[Clip], patterns: list[str], arms: list[str], blocks: int, count: int, seed: int
) -> list[Block]:
    """The blocks in a seeded order, each with its arms in a seeded order."""
    planned = []
    chosen = random.Random(seed)
    for number in range(blocks):
        for clip in clips:
            for pattern in patterns:
                if pattern not in PATTERNS_OF.get(clip.group, (pattern,)):
                    continue
                own = [arm for arm in arms_of(clip) if arm in arms]
                chosen.shuffle(own)
                digits = hashlib.sha256(f"{clip.name}/{pattern}".encode()).digest()
                wanted = requests(
                    pattern,
                    clip.frames,
                    1 if pattern == WHOLE else count,
                    (seed, number, int.from_bytes(digits[:4], "little")),
                )
                planned.append(Block(number, clip, pattern, wanted, own))
    # by number, so that a run that ends early has something of each
    rest: list[Block] = []
    for number in range(blocks):
        part = [block for block in planned if block.number == number]
        chosen.shuffle(part)
        rest += part
    return rest


class Run:
    """Records of a comparison in a file: one line a request.

    Attributes:
        failed: arms that could not read, by arm and clip, with the reason.
    """

    def __init__(self, folder: Path, peers: Peers, references: Path) -> None:
        self.folder = folder
        self.peers = peers
        self.references = references
        self.records_file = folder / "records.jsonl"
        self.processes: dict[str, Process] = {}
        self.cache: dict[str, Reference] = {}
        self.failed: dict[str, str] = {}
        references.mkdir(parents=True, exist_ok=True)

    def records(self) -> list[dict[str, Any]]:
        """All records so far."""
        if not self.records_file.exists():
            return []
        lines = self.records_file.read_text().splitlines()
        records = []
        for line in lines:
            try:
                records.append(json.loads(line))
            except json.JSONDecodeError:
                break  # the last line of a run that was killed
        return records

    def start(self, arms: list[str]) -> dict[str, str]:
        """Start the workers; the reasons of those that can't be had."""
        missing = {}
        for arm in arms:
            name, mode = worker_of(arm)
            key = f"{name} {mode}"
            if key not in self.processes:
                process = Process(name, self.peers, self.folder / "workers.log")
                self.processes[key] = process
            error = self.processes[key].error
            if error:
                missing[arm] = error
        return missing

    def measure(self, blocks: list[Block], goes_on: Callable[[Block], bool]) -> bool:
        """Run the blocks that have no records yet, as long as goes_on(block) says; whether all."""
        have = {(r["block"], r["arm"]) for r in self.records()}
        self._cut_last_line()
        with self.records_file.open("a") as file:
            for block in blocks:
                for arm in block.arms:
                    if (block.key, arm) in have or f"{arm}/{block.clip.name}" in self.failed:
                        continue
                    for record in self._answers(block, arm):
                        file.write(json.dumps(record) + "\n")
                    file.flush()
                if not goes_on(block):
                    return False
        return True

    def peaks(self) -> dict[str, int]:
        """Peak resident KiB of each worker."""
        return {
            key: process.ask({"do": "rss"}).get("peak_kib", 0)
            for key, process in self.processes.items()
            if not process.error
        }

    def versions(self) -> dict[str, dict[str, str]]:
        """Versions by worker."""
        return {
            key: process.facts["versions"]
            for key, process in self.processes.items()
            if not process.error
        }

    def close(self) -> None:
        """End the workers."""
        for process in self.processes.values():
            process.close()
        self.processes.clear()

    def _answers(self, block: Block, arm: str) -> Iterator[dict[str, Any]]:
        name, mode = worker_of(arm)
        process = self.processes[f"{name} {mode}"]
        if process.error:
            return
        reference = self._reference(block.clip)
        # a file of joined episodes repeats the frames of one
        length = len(reference.hashes)
        hashes = [[reference.hashes[k % length] for k in indices] for indices in block.requests]
        answer = process.ask(
            {
                "do": "block",
                "path": str(block.clip.path),
                "mode": mode,
                "pattern": block.pattern,
                "requests": block.requests,
                "hashes": hashes,
            }
        )
        if "error" in answer:
            # what is published names files, not where they are
            told = answer["error"].replace(f"{block.clip.path.parent}/", "")
            self.failed[f"{arm}/{block.clip.name}"] = told
            if process.process.poll() is not None:
                process.error = answer["error"]
            return
        for k, (indices, result) in enumerate(zip(block.requests, answer["results"], strict=True)):
            frames = result.pop("frames")
            verdicts = [
                reference.judge(index % length, facts)
                for index, facts in zip(indices, frames, strict=False)
            ]
            verdicts += ["wrong"] * abs(len(indices) - len(frames))
            yield {
                "block": block.key,
                "clip": block.clip.name,
                "pattern": block.pattern,
                "request": block.number * 1000 + k,
                "arm": arm,
                **result,
                "verdicts": {v: verdicts.count(v) for v in dict.fromkeys(verdicts)},
            }

    def _reference(self, clip: Clip) -> Reference:
        if clip.name not in self.cache:
            path = Path(clip.facts.get("reference", clip.path))
            self.cache[clip.name] = Reference.of(path, self.references)
        return self.cache[clip.name]

    def _cut_last_line(self) -> None:
        if self.records_file.exists():
            data = self.records_file.read_bytes()
            if data and not data.endswith(b"\n"):
                self.records_file.write_bytes(data[: data.rfind(b"\n") + 1])
