"""SXid numbers: errors of NVSwitches, which the driver writes to the kernel log and fabric manager to its own.

The text says 'Fatal' or 'Non-fatal', and that decides; a row adds what the number means. A number without a row
is judged by that word alone, and one without a word is taken as fatal.
"""

from __future__ import annotations

from typing import NamedTuple


class Sxid(NamedTuple):
    """``harmless``: the guide says that nothing is to be done."""

    number: int
    name: str
    cause: str
    fix: str
    harmless: bool = False
    source: str = "Fabric Manager User Guide, appendix D: NVSwitch SXid errors"


_MENDED = (11012, 11021, 11022, 11023, 12021, 12023, 15008, 15011, 19049, 19055, 19057, 19059, 19062, 19065)
_MENDED_TOO = (19068, 19071, 24001, 24002, 24003)
_STALL = "traffic of a GPU through the switch stalls; its CUDA programs end with Xid 45"
_RESET_ALL = (
    "stop the work, reset all GPUs and switches together (nvidia-smi --gpu-reset without -i), or reboot"
)

_ROWS = (
    *(Sxid(number, "single-bit ECC error", "the switch mended it", "nothing; many on one switch are a sign of ageing",
           harmless=True) for number in (*_MENDED, *_MENDED_TOO)),
    Sxid(11004, "ingress invalid ACL", "the partitions of fabric manager do not fit the GPUs in use",
         "check fabric manager's partitions; restart the virtual machine"),
    Sxid(12028, "egress non-posted privilege error", _STALL,
         "restart the programs on the GPUs of that switch (in a virtual machine: restart it); call the vendor when"
         " it recurs"),
    Sxid(19084, "heartbeat timeout", "comes with a fatal error of the same switch", _RESET_ALL),
    Sxid(20001, "transmission replay", "a packet was sent again: a few are normal, many are a bad link",
         "read nvlink.errors; watch the count"),
    Sxid(20012, "broken or inconsistent connection", "a link lost contact, or the other end was shut down meanwhile",
         "check the link's connectors unless a GPU was being reset"),
    Sxid(22013, "link request interrupt", "said by the guide to be safe to ignore", "nothing", harmless=True),
    *(Sxid(number, f"ingress {what}", "a fatal error of one port", _RESET_ALL)
      for number, what in ((11001, "invalid command"), (11009, "invalid VC set"), (11013, "header double-bit error"),
                           (11018, "RID double-bit error"), (11019, "RLAN double-bit error"),
                           (11020, "control parity"))),
    *(Sxid(number, f"egress {what}", "a fatal error of one port", _RESET_ALL)
      for number, what in ((12001, "crossbar overflow"), (12002, "packet route"), (12022, "input double-bit error"))),
    Sxid(20034, "link down (LTSSM fault)", "a link went down: connector, cable, or the GPU at its end", _RESET_ALL),
)  # fmt: skip

SXIDS = {row.number: row for row in _ROWS}

OTHERWISE = {
    False: "restart the programs on the GPUs of that switch; call the vendor when it recurs",
    True: f"{_RESET_ALL}; call the vendor when it recurs",
}
"""Next step by whether the error is fatal, where no row has one."""
