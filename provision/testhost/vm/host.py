"""A virtual test host that runs: boot, look, cut its power, boot again, end. Nothing of it outlives the block."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from . import cache, command, kvm, qemu, qmp
from .cache import Say
from .errors import TestHostError
from .image import Image
from .leash import Leash
from .lock import Lock
from .ssh import Address

BOOT_SECONDS = 300
"""Deadline of a boot: without KVM one takes about 40 s on two processors."""

_NOBODY = 65534
_SERVER = Path(__file__).with_name("gpu_server.py")
_TELL_EVERY = 10.0
_SOCKETS, _SHORT = "sockets", "kpro-vm-"
_PANIC = "Kernel panic"
_MARKS = ("Welcome to GRUB", " login:")


@dataclass(frozen=True)
class EmulatedGpu:
    """An A6000 with its audio function. ``registers``: offset in BAR 0 -> what it reads instead (a fault)."""

    registers: Mapping[int, int] = field(default_factory=dict)
    bar1_mib: int = 256


class VirtualHost:
    """A machine with a fresh disk over ``image``; GPU n (from 0) is at ``command.bdf(n)``.

    ``owner`` is what the lock says to others, ``wait`` the seconds to wait for them. ``beside``: one that runs already
    and holds the lock for this one too; it ends last. Raises TestHostError.
    """

    def __init__(
        self,
        image: Image,
        gpus: Sequence[EmulatedGpu] = (EmulatedGpu(), EmulatedGpu()),
        *,
        say: Say,
        owner: str = "a test host",
        wait: float = 0,
        memory: int = 2048,
        outbound: bool = False,
        beside: VirtualHost | None = None,
    ) -> None:
        self._image, self.gpus, self._say, self._owner, self._wait = image, tuple(gpus), say, owner, wait
        self._memory, self._outbound = memory, outbound
        self._beside = beside
        self._lock: Lock = beside._lock if beside is not None else Lock(cache.folder() / "lock")
        self._leash: Leash | None = None
        self._servers: list[subprocess.Popen[bytes]] = []
        self._machine: subprocess.Popen[bytes] | None = None
        self._boots = 0

    def __enter__(self) -> Self:
        try:
            if self._beside is None:
                self._lock.take(self._owner, self._wait, self._say)
            self._prepare()
            self.boot()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _prepare(self) -> None:
        runs = cache.make_folder(cache.folder() / "run")
        for left in runs.iterdir() if self._beside is None else ():
            # The lock is ours: what lies there belongs to nobody any more.
            sockets = left / _SOCKETS
            if sockets.is_symlink() and sockets.readlink().name.startswith(_SHORT):
                cache.remove(sockets.readlink())
            cache.remove(left)
        self.folder = Path(tempfile.mkdtemp(prefix="vm-", dir=runs))
        # The path of a socket has room for 107 bytes only.
        self.sockets = Path(tempfile.mkdtemp(prefix=_SHORT, dir="/tmp"))
        (self.folder / _SOCKETS).symlink_to(self.sockets)
        self._leash = Leash((self.folder, self.sockets))
        self._qemu = qemu.find(self._say)
        self.kvm = kvm.works(self._qemu, self._image.kernel_file)
        if not self.kvm:
            self._say("KVM does not work here: the machine is emulated, and slower")
        self._disk = self.folder / "disk.qcow2"
        qemu.make_overlay(self._qemu, self._image.disk, self._disk)
        port = _free_port()
        known = self.folder / "known_hosts"
        kind, key = self._image.host_key.split()[:2]
        known.write_text(f"[127.0.0.1]:{port} {kind} {key}\n")
        self.address = Address(port, self._image.key, known)

    def boot(self) -> None:
        """Switches it on, with GPUs as new, and waits until it lets us in. Its disk is as it was left."""
        leash = self._on()
        if self._machine is not None and self._machine.poll() is None:
            raise TestHostError("the test host is on already: cut its power first, or restart it")
        self._boots += 1
        self.serial = self.folder / f"serial-{self._boots}.log"
        self._qmp = self.sockets / f"qmp-{self._boots}"
        user = (_NOBODY, _NOBODY) if os.geteuid() == 0 else None
        sockets = [self._serve(leash, number, gpu, user) for number, gpu in enumerate(self.gpus)]
        shape = command.Shape(
            disk=self._disk,
            serial=self.serial,
            qmp=self._qmp,
            ssh_port=self.address.port,
            gpus=sockets,
            memory=self._memory,
            processors=min(4, max(2, os.cpu_count() or 2)),
            kvm=self.kvm,
            outbound=self._outbound,
            user=user,
        )
        with (self.folder / "qemu.log").open("ab") as log:
            argv = [*self._qemu.system, *command.words(shape)]
            self._machine = leash.start(argv, out=log, env=self._qemu.environ, pass_fds=(self._lock.fd,))
        self._wait_up(None)

    def _serve(
        self, leash: Leash, number: int, gpu: EmulatedGpu, user: tuple[int, int] | None
    ) -> command.Sockets:
        paths = [self.sockets / f"{self._boots}-{number}{kind}" for kind in ("g", "a")]
        argv = [sys.executable, "-S", "-E", str(_SERVER), *map(str, paths), "--bar1", str(gpu.bar1_mib)]
        argv += [f"--reg={at:x}={value:x}" for at, value in gpu.registers.items()]
        argv += ["--user", *map(str, user)] if user else []
        with (self.folder / "gpus.log").open("ab") as log:
            server = leash.start(argv, out=log)
        del self._servers[number:]
        self._servers.append(server)
        until = time.monotonic() + 20
        while not all(path.exists() for path in paths):
            if server.poll() is not None or time.monotonic() > until:
                raise TestHostError(
                    f"emulated GPU {number} does not start: {(self.folder / 'gpus.log').read_text()}"
                )
            time.sleep(0.02)
        return command.Sockets(*paths)

    def _wait_up(self, before: str | None) -> None:
        started = told = time.monotonic()
        refusal = "no SSH server answered"
        marks = list(_MARKS) if before is None else []
        while (passed := time.monotonic() - started) < BOOT_SECONDS:
            if self._machine is None or self._machine.poll() is not None:
                raise TestHostError(f"QEMU ended: {(self.folder / 'qemu.log').read_text()[-2000:]}")
            console = self._console()
            if _PANIC in console:
                raise TestHostError(
                    f"the test host's kernel panics: {console[console.index(_PANIC) :][:1500]}"
                )
            if marks and marks[0] in console:
                self._say(f"booting: {marks.pop(0).strip()} ({passed:.0f} s)")
            elif time.monotonic() - told > _TELL_EVERY:
                self._say(f"booting ({passed:.0f} s)")
                told = time.monotonic()
            if self.address.answers():
                try:
                    if self.boot_id() != before:
                        self._say(f"the test host is up ({time.monotonic() - started:.0f} s)")
                        return
                except TestHostError as error:
                    refusal = str(error)
            time.sleep(0.5)
        last = self._console()[-1500:]
        raise TestHostError(
            f"the test host did not let us in within {BOOT_SECONDS} s ({refusal}); its console ends with:\n{last}"
        )

    def _console(self) -> str:
        """What the machine has said on its serial port; QEMU makes the file a moment after it starts."""
        try:
            return self.serial.read_text(errors="replace")
        except FileNotFoundError:
            return ""

    def ssh(
        self, command_line: str, *, stdin: bytes = b"", timeout: float = 120, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Runs a shell command line there as root; see ssh.Address.run."""
        return self.address.run(command_line, stdin=stdin, timeout=timeout, check=check)

    def boot_id(self) -> str:
        return self.ssh("cat /proc/sys/kernel/random/boot_id", timeout=30).stdout.strip()

    def reboot(self) -> None:
        """Restarts it from inside and waits until it is up again."""
        before = self.boot_id()
        self.ssh("systemctl reboot", check=False, timeout=30)
        self._wait_up(before)

    def reboot_wait(self, before: str) -> None:
        """Waits until it has booted again since ``before``, a boot id: somebody else restarts it."""
        self._wait_up(before)

    def power_cut(self) -> None:
        """Ends QEMU at once (SIGKILL), as a power failure does. ``boot`` starts the same disk again."""
        self._end()

    def power_down(self, seconds: float = 120) -> None:
        """Presses the power button and waits; raises TestHostError when it does not switch itself off."""
        if self._machine is None:
            raise TestHostError("the test host is off")
        qmp.execute(self._qmp, "system_powerdown")
        try:
            self._machine.wait(seconds)
        except subprocess.TimeoutExpired:
            raise TestHostError(f"the test host did not switch itself off within {seconds:.0f} s") from None
        self._end()

    def end_gpu(self, number: int) -> None:
        """Ends the server of a GPU: its configuration space reads ff, as that of a lost GPU."""
        self._servers[number].kill()
        self._servers[number].wait()

    def keep(self) -> str:
        """Lets the machine live on without us; gives the command that ends it (its files go with the next one)."""
        leash = self._on()
        if self._machine is None:
            raise TestHostError("the test host is off")
        self._lock.note(f"{self._owner}, kept", self._machine.pid)
        leash.let_go()
        self._leash = None
        # The servers of the GPUs end with their QEMU.
        return f"kill {self._machine.pid}"

    def stop(self) -> None:
        """Ends everything and removes its files. Harmless when repeated, and after ``keep``."""
        if self._leash is not None:
            self._leash.cut()
            self._leash = None
        if self._beside is None:
            self._lock.release()

    def _on(self) -> Leash:
        if self._leash is None:
            raise TestHostError("the test host has ended")
        return self._leash

    def _end(self) -> None:
        for process in (*((self._machine,) if self._machine else ()), *self._servers):
            process.kill()
            process.wait()
        self._machine = None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
