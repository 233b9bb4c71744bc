"""Findings about the machine around its GPUs: kernel log, bus, device nodes, shared memory, environment."""

from __future__ import annotations

from checks.data.entry import Entry

NODE: dict[str, Entry] = {
    "node.reachable": Entry(
        "The machine named by --host can be asked",
        "A machine that cannot be asked is not known to be healthy: the answer is 'unknown', exit code 3.",
        "unknown host node.reachable ssh could not reach kpro5: Connection refused",
        "Do what the finding says; 'ssh NAME true' and 'ssh NAME python3 -V' must work by hand.",
        "ssh(1): exit code 255 is ssh's own",
    ),
    "node.test_host": Entry(
        "Replayed evidence opens a gate on a test host only",
        "A gate that accepts a record would let a machine serve on the evidence of another day or "
        "another machine. Only a machine that its builder marked as a throw-away test host may do so.",
        "unknown host node.test_host replayed evidence opens a gate on a test host only, and this is none",
        "Run the check live: leave --replay out.",
        "/etc/kpro/test-host: root's, mode 0444, one line 'kpro-test-host <uuid>'; SMBIOS product on "
        "virtual machines",
    ),
}
