"""Xid numbers that NVIDIA's driver writes to the kernel log: what each says, whom it concerns, what to do.

``kind`` decides the status (see KINDS). A number that is in no row is told as unknown to the catalogue, never
as harmless. NVIDIA's sheet gives an immediate action and an investigatory one; the immediate one is meant here.
"""

from __future__ import annotations

from typing import NamedTuple

from checks.model import Status

APPLICATION, RESET, REBOOT, REPLACE = "application", "reset", "reboot", "replace"
WORKFLOW, NVLINK5, INFO = "workflow", "nvlink5", "informational"


class Kind(NamedTuple):
    """What a kind of Xid means for the verdict, and the step that is right for all of it."""

    status: Status
    word: str
    fix: str


KINDS = {
    APPLICATION: Kind(
        Status.WARN,
        "application error",
        "no GPU reset: read the log of the process that is named, and restart it",
    ),
    RESET: Kind(
        Status.FAIL,
        "needs a GPU reset",
        "stop the work on it, then nvidia-smi -i N --gpu-reset (all GPUs of an NVSwitch board together), or reboot",
    ),
    REBOOT: Kind(
        Status.FAIL,
        "needs a reboot",
        "stop the service and reboot the host; power it off and on when the GPU stays away",
    ),
    REPLACE: Kind(
        Status.FAIL, "hardware", "take the GPU out of service and have the vendor's field diagnostics run"
    ),
    WORKFLOW: Kind(
        Status.FAIL,
        "needs a decision",
        "stop the work on it, read gpu.recovery, gpu.row_remap and nvlink.state, and do what they say; else reset it",
    ),
    NVLINK5: Kind(
        Status.FAIL,
        "NVLink 5 error",
        "a fatal one: reset all GPUs of the link's domain together; read the subcode against NVIDIA's sheet",
    ),
    INFO: Kind(Status.PASS, "informational", "nothing by itself: read the finding that it belongs to"),
}
"""NVLINK5: 'Fatal' in the text fails, 'Nonfatal' warns."""


class Xid(NamedTuple):
    """``fix`` empty: that of its kind. ``status`` None: that of its kind."""

    number: int
    name: str
    kind: str
    cause: str
    fix: str = ""
    status: Status | None = None
    source: str = "NVIDIA Xid catalog (docs.nvidia.com/deploy/xid-errors), sheet of 2025-10"


_ENGINE = "an engine of the GPU refused what a program gave it"
_LINK = "a unit of the fifth NVLink generation reported an error"
_HEAP = "restart the process; run it once under compute-sanitizer when it recurs"
_POWER = "power smoothing of the board changed its state"


def _engines(name: str, *numbers: int) -> tuple[Xid, ...]:
    return tuple(Xid(number, f"{name} error", APPLICATION, _ENGINE) for number in numbers)


_ROWS = (
    Xid(8, "GPU stopped processing", APPLICATION, "a channel made no progress for too long", _HEAP),
    Xid(11, "invalid or corrupted push buffer", APPLICATION, _ENGINE),
    Xid(13, "graphics engine exception", APPLICATION, "a kernel read or wrote out of bounds, or ran a bad opcode",
        _HEAP),
    Xid(25, "invalid or illegal push buffer", APPLICATION, _ENGINE),
    Xid(31, "MMU fault", APPLICATION, "a program, rarely the driver, touched an address that is not mapped", _HEAP),
    Xid(32, "invalid or corrupted push buffer", APPLICATION, "commands to the GPU arrived damaged: driver or PCIe",
        "restart the process; when other programs get it too, read gpu.pcie_replay and the PCIe slot's errors"),
    Xid(37, "driver error at an engine", APPLICATION, _ENGINE),
    Xid(38, "driver firmware error", RESET, "the GPU's internal program stopped in a wrong state"),
    *_engines("copy engine", 39, 40, 41, 70, 71, 72, 75, 76, 77, 85, *range(126, 136)),
    Xid(42, "video processor exception", APPLICATION, _ENGINE),
    Xid(43, "GPU stopped processing", APPLICATION, "a program gave the GPU something it could not finish; the GPU is"
        " well", _HEAP),
    Xid(44, "graphics engine fault at a context switch", RESET, "a context could not be saved or restored"),
    Xid(45, "preemptive cleanup", APPLICATION,
        "the driver removed the channels of a process that was killed or that hit another error; alone it says no more",
        "read the Xid before it; alone, nothing is to do but to restart the process"),
    Xid(46, "GPU stopped processing", RESET, "the whole GPU made no progress for too long"),
    Xid(48, "uncorrectable ECC error", WORKFLOW, "memory gave data that ECC could not mend",
        "read gpu.ecc and gpu.row_remap; drain the GPU and reset it when remapping is pending"),
    Xid(54, "auxiliary power is not connected", REPLACE, "the board's power plug is loose or gets too little",
        "power off, seat the power plugs"),
    Xid(56, "display engine error", APPLICATION, _ENGINE),
    Xid(57, "error on the video memory interface", RESET, "memory could not be reached in order"),
    Xid(58, "unstable video memory interface", RESET, "memory could not be reached in order"),
    Xid(60, "video processor exception", APPLICATION, _ENGINE),
    Xid(61, "internal micro-controller breakpoint", RESET, "firmware of the GPU stopped itself"),
    Xid(62, "internal micro-controller halt", RESET, "firmware of the GPU stopped: often power or heat, or hardware"),
    Xid(63, "row remapping or page retirement recorded", INFO, "a bad memory row was noted, a spare takes its place",
        "read gpu.row_remap (gpu.retired_pages before Ampere): when it is pending, reset the GPU at leisure"),
    Xid(64, "row remapping or page retirement failed", RESET, "a bad memory row could not be replaced by a spare",
        "take the GPU out of service, reset it once, and have it replaced when gpu.row_remap still fails"),
    Xid(65, "video processor exception", APPLICATION, _ENGINE),
    Xid(66, "illegal access by the driver", APPLICATION, "the driver itself did something wrong for a program"),
    Xid(67, "illegal access by the driver", APPLICATION, "the driver itself did something wrong for a program"),
    Xid(68, "video decoder exception", APPLICATION, _ENGINE),
    Xid(69, "graphics engine class error", APPLICATION, _ENGINE),
    Xid(74, "NVLink error", WORKFLOW, "a link failed, or the device at its other end did",
        "read nvlink.state and nvlink.errors on both ends; reset the GPUs together; reseat a bridge"),
    Xid(78, "vGPU did not start", WORKFLOW, "guest driver and vGPU manager do not fit", "update both to one release"),
    Xid(79, "GPU has fallen off the bus", REBOOT, "the GPU no longer answers on PCIe: power, slot, riser, or itself"),
    Xid(80, "corrupted data sent to the GPU", APPLICATION, _ENGINE),
    *_engines("JPEG engine", 82, 99, *range(100, 106)),
    *_engines("video decoder", 83, 84, 88, 89, 96, 97, 98),
    *_engines("optical flow engine", 86, 139),
    Xid(92, "high rate of single-bit ECC errors", INFO, "memory is ageing or hot; every error was mended",
        "watch gpu.ecc and gpu.row_remap; call the vendor when they grow", Status.WARN),
    Xid(93, "InfoROM wear limit", INFO, "a configured limit keeps the board from writing its own records",
        "call the vendor when nobody set that limit", Status.WARN),
    Xid(94, "contained memory error", APPLICATION,
        "memory gave bad data to one program, which was ended; all others are untouched",
        "restart the process that is named; read gpu.row_remap and reset the GPU at leisure when it is pending"),
    Xid(95, "uncontained memory error", RESET, "memory gave bad data, and which programs got it is not known"),
    Xid(106, "test message", INFO, "somebody tests the monitoring", "nothing"),
    Xid(107, "test message", INFO, "somebody tests the monitoring", "nothing"),
    Xid(109, "context switch timeout", RESET, "a program could not be taken off the GPU"),
    Xid(110, "security fault", RESET, "uncommon without a hardware fault",
        "undo recent changes of hardware, power the host off and on, call the vendor when it recurs"),
    Xid(119, "GSP did not answer in time", RESET, "the GPU's own firmware (GSP) hangs; nvidia-smi may hang as well",
        "reset the GPU; reboot when that hangs; try another driver release when it recurs"),
    Xid(120, "GSP error", RESET, "the GPU's own firmware (GSP) stopped with an error",
        "reset the GPU; reboot when that hangs; try another driver release when it recurs"),
    Xid(121, "C2C link error, mended", INFO, "the link between CPU and GPU mended an error",
        "reset the GPU at leisure, which trains the link anew"),
    Xid(136, "link training failed", RESET, "an NVLink did not come up",
        "reset all GPUs together; read nvlink.state; call the vendor when it recurs"),
    Xid(137, "NVLink privilege error", INFO, "a program reached for peer memory that is not mapped, or fabric trouble",
        "read fabric.state; then run the program under compute-sanitizer", Status.WARN),
    Xid(140, "unrecovered ECC error", RESET, "memory errors came faster than the driver could retire the rows"),
    Xid(141, "CUDA fast path error", INFO, "the driver fell back from a fast path",
        "call the vendor when it recurs", Status.WARN),
    Xid(142, "video encoder error", APPLICATION, _ENGINE),
    Xid(143, "GPU initialisation error", RESET, "the GPU did not start in order"),
    Xid(144, "NVLink SAW error", NVLINK5, _LINK),
    Xid(145, "NVLink RLW error", NVLINK5, _LINK),
    Xid(146, "NVLink TLW error", NVLINK5, _LINK),
    Xid(147, "NVLink TREX error", NVLINK5, _LINK),
    Xid(148, "NVLink NVLPW control error", NVLINK5, _LINK),
    Xid(149, "NVLink NETIR error", NVLINK5, "a link went down or is about to: cable, connector or the other end"),
    Xid(150, "NVLink MSE error", NVLINK5, _LINK),
    Xid(151, "key rotation error", REBOOT, "confidential computing could not renew its keys",
        "restart the virtual machine"),
    Xid(154, "recovery action changed", INFO, "the driver sums up what the Xids before it ask for",
        "read gpu.recovery: it has the action that is asked for now", Status.WARN),
    Xid(155, "NVLink taken down by software", RESET, "a link was taken down on purpose or by an error of software"),
    Xid(156, "resource retirement recorded", RESET, "a faulty part of the chip is to be left out after a reset"),
    Xid(157, "resource retirement failed", REPLACE, "a faulty part of the chip could not be left out: no spare",
        "work may go on; have the board's field diagnostics run", Status.WARN),
    Xid(158, "GPU fatal timeout", RESET, "a unit of the GPU gave no answer"),
    Xid(159, "CHI non-data error", APPLICATION, "an access over the CPU-GPU link failed: unified memory of a program"),
    Xid(160, "channel retirement recorded", INFO, "a memory channel is to be left out after a reset",
        "read gpu.memory after the next reset"),
    Xid(161, "channel retirement failed", REPLACE, "a memory channel could not be left out: no spare",
        "have the board's field diagnostics run", Status.WARN),
    *(Xid(number, "power smoothing", INFO, _POWER, "watch it; it limits power swings only") for number in (162, 164)),
    *(Xid(number, "power smoothing is off", INFO, _POWER, "check the board's cooling", Status.WARN)
      for number in (163, 165)),
    *(Xid(number, "NVLink encryption", RESET, "traffic before the link was ready for encryption")
      for number in (166, 170)),
    Xid(167, "PCIe fatal timeout", RESET, "a PCIe transfer of the GPU got no answer", "read gpu.pcie_replay; reboot"),
    Xid(168, "less memory than the board has", REPLACE, "bad memory where the driver keeps its protected region",
        "switch ECC on so that rows can be remapped, and reboot"),
    Xid(169, "internal micro-controller halt", RESET, "the security processor of the GPU stopped"),
    Xid(171, "uncorrectable error in DRAM", WORKFLOW, "says of Xid 48 that it was in DRAM",
        "read gpu.row_remap; drain the GPU and reset it when remapping is pending"),
    Xid(172, "uncorrectable error in SRAM", WORKFLOW, "says of Xid 48 that it was in SRAM",
        "read gpu.ecc for the SRAM threshold; restart the process; reset the GPU at leisure"),
)  # fmt: skip

XIDS = {row.number: row for row in _ROWS}

OF_AN_ENGINE = {
    43: Xid(43, "GPU stopped processing", APPLICATION,
            "an inference engine indexed a table out of bounds, such as with a draft model's mask_token_id beyond the"
            " vocabulary; the GPU is well",
            "no GPU reset: check the drafter's config (provcheck drafter), then restart the engine",
            source="reproduced on an H200 with a drafter whose mask token is out of range"),
}  # fmt: skip
"""Rows that hold when the process that is named is an inference engine."""

ABOUT_MEMORY = frozenset({45, 48, 63, 94, 171})
"""With 63 among them, and no others: healed once the GPU shows no remapping pending or failed."""

ENGINE_NAMES = ("vllm", "sglang", "EngineCor", "trtllm", "llama-server", "text-generation")
"""What the name of an inference engine's process contains, upper and lower case alike."""

RECOVERY: dict[int, tuple[str, str]] = {
    1: (
        "GPU reset",
        "stop the work on this GPU, then reset it (nvidia-smi --gpu-reset -i N), or reboot the host",
    ),
    2: ("node reboot", "stop the service and reboot the host"),
    3: ("drain peer-to-peer", "stop the work that copies to it or from it, then read gpu.recovery again"),
    4: ("drain and reset", "stop the work on this GPU, then reset it (nvidia-smi --gpu-reset -i N)"),
    5: ("IMEX domain", "recover the IMEX domain"),
    6: ("bus reset", "stop the work on this GPU and reset it through the bus, or reboot the host"),
    7: ("system reboot", "stop the service and reboot the host"),
}
"""What Xid 154 says that the driver asks for (nvml.h, nvmlDeviceGpuRecoveryAction_t): word, fix; 0 is none."""
