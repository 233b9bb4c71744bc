"""Rules about weights and pairing: tensors missing or mixed, untrained or foreign weights, an MTP head not loaded."""

from __future__ import annotations

from checks.model import Status
from checks.serving.evidence import Evidence
from checks.serving.opinion import (
    ASK_DRAFTER,
    DIRECT,
    FITS,
    POSSIBLE,
    SIGNATURE,
    SILENT,
    Opinion,
    excluded,
    supported,
)
from checks.serving.rules_bands import NEARLY, band_of, bordering, errors_of, runner_in_doubt
from checks.serving.rules_drafter import mask_faults
from checks.serving.signs import Signs

_PAIRING = ("drafter.num_target_layers", "drafter.tokenizer", "drafter.target_width")


def tensors(e: Evidence, s: Signs) -> Opinion:
    d = e.drafter
    if d.dflash and (wrong := d.told(("drafter.tensors",), (Status.FAIL,))):
        return supported(DIRECT, wrong[0])
    if "missing_module" in errors_of(e):
        return supported(DIRECT, "the engine has no module for a tensor of the checkpoint")
    if any("not initialized from checkpoint" in note for note in e.log.notes):
        return supported(DIRECT, "the engine says that weights were not in the checkpoint")
    if not s.dead:
        return SILENT
    band = band_of(s.first)
    near = bordering(s.first)
    if d.tensors is not None:
        if near or band == "tensors":
            return supported(
                FITS if not near else SIGNATURE if band == "tensors" else NEARLY,
                f"the tensor list is complete, but position 0 accepts {s.first:.3f}: layers mixed up gave"
                " 0.06 to 0.08",
            )
        return excluded("the tensor list is complete")
    if band == "tensors":
        return supported(
            SIGNATURE,
            f"position 0 accepts {s.first:.3f}: missing or mixed-up tensors gave 0.04-0.06",
            ASK_DRAFTER,
        )
    if band == "mask":
        return supported(
            NEARLY if near else 0.4,
            f"position 0 accepts {s.first:.3f}, a little above what missing tensors leave",
            ASK_DRAFTER,
        )
    return supported(0.4, "nothing is accepted; the tensor list was not recorded", ASK_DRAFTER)


def weights(e: Evidence, s: Signs) -> Opinion:
    if not s.dead:
        return SILENT
    if band_of(s.first) != "gone":
        return excluded(f"position 0 accepts {s.first:.3f}; untrained or foreign weights leave under 0.01")
    clean = e.drafter.present and not mask_faults(e, s)
    because = "nothing at all is accepted" + (", and the config contradicts nothing" if clean else "")
    ask = "the hash of the drafter's weights and the target revision it was trained on"
    if runner_in_doubt(e):
        return supported(0.45, f"{because}; on the V2 runner some healthy drafters look the same", ask)
    return supported(0.9, because, ask)


def mtp_weights(e: Evidence, s: Signs) -> Opinion:
    if e.method not in ("mtp", "eagle") or not s.dead:
        return SILENT
    names = e.drafter.tensors
    if names is not None and not any("mtp" in name or "nextn" in name for name in names):
        return supported(
            DIRECT + 0.02, "the checkpoint has no mtp.* tensors, so the head is uninitialised memory"
        )
    quantized = e.settings.get("quantization")
    if quantized and e.acceptance is not None and e.acceptance.length < 1.02:
        return supported(
            0.93,
            f"acceptance length {e.acceptance.length:.3f} on a {quantized} checkpoint: its MTP layers "
            "are in the ignore list or were dropped",
            "the mtp.* names and types in the safetensors index",
        )
    return supported(
        0.6, "an MTP head that accepts nothing was not loaded", "the mtp.* names in the safetensors index"
    )


def eagle3_as_eagle(e: Evidence, s: Signs) -> Opinion:
    name = str(e.settings.get("drafter") or "").lower()
    if e.method != "eagle" or "eagle3" not in name or not s.dead:
        return SILENT
    return supported(
        0.94, "an EAGLE-3 drafter under the algorithm EAGLE gets no captured layers and drafts garbage"
    )


def wrong_target(e: Evidence, s: Signs) -> Opinion:
    if e.drafter.dflash and (told := e.drafter.told(_PAIRING, (Status.FAIL,))):
        return supported(DIRECT, told[0])
    if any("num_target_layers=" in note for note in e.log.notes):
        return supported(DIRECT, "the engine warns that the drafter was trained for another number of layers")
    if s.dead and band_of(s.first) == "gone":
        return supported(
            0.4 if runner_in_doubt(e) else 0.6,
            "a healthy drafter of another target accepts nothing either",
            "the revision and hash of target and drafter",
        )
    if s.dead:
        return excluded(f"position 0 accepts {s.first:.3f}; a drafter of another target leaves under 0.01")
    if s.weak or s.shorter or s.below_reference:
        return supported(
            POSSIBLE,
            "a finetune or another revision of the target lowers acceptance evenly",
            "the revision and hash of target and drafter",
        )
    return SILENT
