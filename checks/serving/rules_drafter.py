"""Rules about the drafter: its weights, its config, its pairing. Each answers for one cause of the table.

The bands of position-0 acceptance are those measured on vLLM 0.20.1: below 0.01 untrained, foreign or no weights;
0.03-0.07 tensors missing or mixed; 0.08-0.12 mask token or a rope 1000x off, which metrics cannot tell apart.
"""

from __future__ import annotations

from checks.serving.drafterfile import (
    SILENT_ROPE,
    SILENT_VOCAB,
    expected_layers,
    family_ids,
    missing_tensors,
)
from checks.serving.evidence import Evidence
from checks.serving.opinion import (
    ASK_DRAFTER,
    ASK_LOG,
    DIRECT,
    FITS,
    POSSIBLE,
    SIGNATURE,
    SILENT,
    Opinion,
    excluded,
    older,
    supported,
    unknown,
)
from checks.serving.signs import Signs


def _layered(e: Evidence) -> bool:
    """Whether mask token and captured layers are part of this method at all."""
    return (
        e.drafter.dflash or e.method in ("dflash", "dspark") or (e.method is None and not e.drafter.present)
    )


def _errors(e: Evidence) -> set[str]:
    return {error.row for error in e.log.errors}


def _band(first: float | None) -> str:
    if first is None:
        return "none"
    return "gone" if first < 0.02 else "tensors" if first < 0.075 else "mask" if first < 0.15 else "alive"


def mask_faults(e: Evidence) -> list[str]:
    """What the config says about the mask token that cannot be right."""
    d = e.drafter
    found: list[str] = []
    if not d.present or not _layered(e):
        return found
    vocab = d.target_vocab or d.vocab
    if d.mask is None:
        found.append("no mask_token_id")
    elif d.mask in d.eos or d.mask in d.target_eos:
        found.append(f"mask_token_id {d.mask} is the end-of-text token, which the target emits")
    elif vocab is not None and d.mask >= vocab:
        found.append(f"mask_token_id {d.mask} is not below the vocab of {vocab}")
    return found


def mask_token(e: Evidence, s: Signs) -> Opinion:
    if not _layered(e):
        return SILENT
    if "mask_missing" in _errors(e):
        return supported(DIRECT + 0.03, "the engine refused to start and named the field")
    faults = mask_faults(e)
    if s.died and faults and _errors(e) & {"device_assert", "mask_range"}:
        return supported(DIRECT + 0.03, f"{faults[0]}, and the first request met an index out of bounds")
    if not s.dead:
        if faults and e.drafter.mask is not None and e.drafter.mask in e.drafter.eos:
            return supported(DIRECT, faults[0])
        if s.first is None or not s.enough:
            return SILENT
        return excluded(f"position 0 accepts {s.first:.2f}; a wrong mask token leaves at most 0.12")
    if faults:
        return supported(DIRECT, faults[0])
    band = _band(s.first)
    if band == "mask":
        return supported(
            SIGNATURE, f"position 0 accepts {s.first:.3f}: wrong mask tokens gave 0.09-0.11", ASK_DRAFTER
        )
    if band == "tensors":
        return supported(
            FITS,
            f"position 0 accepts {s.first:.3f}, a little under what a wrong mask token leaves",
            ASK_DRAFTER,
        )
    return excluded(f"position 0 accepts {s.first:.3f}; a wrong mask token still leaves 0.09")


def rope(e: Evidence, s: Signs) -> Opinion:
    d = e.drafter
    if not s.enough or (s.first is None and not d.present):
        return SILENT
    known = d.target_rope is not None and d.rope is not None
    if known and d.rope == d.target_rope:
        return excluded(f"rope_theta {d.rope:g} is the target's")
    if known and d.rope != d.target_rope and (s.poor_acceptance or s.first is None):
        return supported(DIRECT, f"rope_theta {d.rope:g}, the target has {d.target_rope:g}")
    if known:
        return supported(SIGNATURE, f"rope_theta {d.rope:g}, the target has {d.target_rope:g}")
    silent = d.present and d.rope is None
    told = f"the config names no rope_theta, so it silently is {SILENT_ROPE:g}" if silent else ""
    if s.cliff:
        shape = "each position is accepted worse than the one before, from the start"
        return supported(DIRECT if silent else 0.85, f"{shape}; {told}" if told else shape, ASK_DRAFTER)
    if s.dead and _band(s.first) in ("mask", "tensors"):
        weight = SIGNATURE if _band(s.first) == "mask" else FITS
        because = f"position 0 accepts {s.first:.3f}: a rope_theta 1000x too small gave 0.12 and then nothing"
        return supported(weight, f"{because}; {told}" if told else because, ASK_DRAFTER)
    if silent and s.weak:
        return supported(0.85, told, ASK_DRAFTER)
    if s.dead:
        return excluded(f"position 0 accepts {s.first:.3f}; a wrong rope leaves at least 0.1 there")
    if s.cut:
        return supported(POSSIBLE, "the curve breaks off, though late and suddenly", ASK_DRAFTER)
    if silent and not s.poor_acceptance:
        return SILENT
    return excluded(
        "the conditional acceptance stays even; a wrong rope makes each position worse than the one before"
    )


def tensors(e: Evidence, s: Signs) -> Opinion:
    d = e.drafter
    missing = missing_tensors(d)
    if missing:
        shown = ", ".join(missing[:4]) + (f" and {len(missing) - 4} more" if len(missing) > 4 else "")
        return supported(DIRECT, f"the tensor list lacks {shown}")
    if "missing_module" in _errors(e):
        return supported(DIRECT, "the engine has no module for a tensor of the checkpoint")
    if any("not initialized from checkpoint" in note for note in e.log.notes):
        return supported(DIRECT, "the engine says that weights were not in the checkpoint")
    if not s.dead:
        return SILENT
    band = _band(s.first)
    if d.tensors is not None:
        if band == "tensors":
            return supported(
                FITS,
                f"the tensor list is complete, but position 0 accepts {s.first:.3f}: layers mixed up gave"
                " 0.06",
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
            0.4, f"position 0 accepts {s.first:.3f}, a little above what missing tensors leave", ASK_DRAFTER
        )
    return supported(0.4, "nothing is accepted; the tensor list was not recorded", ASK_DRAFTER)


def weights(e: Evidence, s: Signs) -> Opinion:
    if not s.dead:
        return SILENT
    if _band(s.first) != "gone":
        return excluded(f"position 0 accepts {s.first:.3f}; untrained or foreign weights leave under 0.01")
    clean = e.drafter.present and not mask_faults(e)
    because = "nothing at all is accepted" + (", and the config contradicts nothing" if clean else "")
    return supported(
        0.9, because, "the hash of the drafter's weights and the target revision it was trained on"
    )


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


def layer_ids(e: Evidence, s: Signs) -> Opinion:
    if not _layered(e) or layer_faults(e):
        return SILENT
    wanted, used, d = expected_layers(e.drafter), e.log.layers, e.drafter
    depth = d.target_layers or d.target_depth
    if wanted and used:
        if sorted(used) == sorted(wanted):
            off_family = _off_family(e)
            if off_family and s.poor_acceptance:
                return supported(0.4 if s.dead else 0.6, off_family, ASK_DRAFTER)
            return excluded(f"the engine captures {_list(used)}, as the config asks")
        if _one_early(wanted, used):
            off_family = _off_family(e)
            return (
                supported(0.4 if s.dead else FITS, off_family, ASK_DRAFTER)
                if off_family and s.poor_acceptance
                else SILENT
            )
        if len(used) != len(wanted) or len(set(used)) != len(used) or (depth and max(used) > depth):
            return SILENT
        because = f"the engine captures {_list(used)}, this drafter was configured for {_list(wanted)}"
        return supported(0.4 if s.dead else DIRECT, because)
    if s.dead:
        off_family = _off_family(e)
        if off_family:
            return supported(
                0.4, f"{off_family}; wrong ids alone never went below a length of 1.39", ASK_DRAFTER
            )
        return unknown("the layers really captured are not in this record", ASK_LOG)
    if s.weak or s.shorter or s.below_reference:
        off_family = _off_family(e)
        if off_family:
            return supported(FITS, off_family, ASK_LOG)
        return supported(0.35, "wrong layer ids bend the whole curve down evenly, as here", ASK_LOG)
    return SILENT


def _off_family(e: Evidence) -> str | None:
    d = e.drafter
    depth = d.target_layers or d.target_depth
    if not d.ids or not depth or depth < 4:
        return None
    usual = family_ids(depth, len(d.ids))
    wrong = sum(1 for have, want in zip(d.ids, usual, strict=True) if have != want)
    if not wrong:
        return None
    return (
        f"{wrong} of {len(d.ids)} ids {_list(d.ids)} are off the family's rule {_list(usual)} for {depth}"
        " layers"
    )


def _one_early(wanted: tuple[int, ...], used: tuple[int, ...]) -> bool:
    return len(wanted) == len(used) and all(
        a - b == 1 for a, b in zip(sorted(wanted), sorted(used), strict=True)
    )


def one_early(e: Evidence, s: Signs) -> Opinion:
    wanted, used = expected_layers(e.drafter), e.log.layers
    if not _layered(e) or not wanted:
        return SILENT
    unshifted = (
        e.drafter.shifted_ids is None
        and e.settings.engine == "vllm"
        and older(e.settings.version, "0.22.0") is True
    )
    if used is not None and not _one_early(wanted, used):
        return SILENT
    if used is None and not unshifted:
        return SILENT
    cost = "3-5 % on an 8B model, 9 % on a 12-layer one"
    told = f"captures {_list(used)}" if used else "reads the ids as they are"
    because = (
        f"vLLM {e.settings.version or ''} {told}, one layer before the trained {_list(wanted)} in the"
        " engine's counting"
    )
    if s.dead:
        return supported(0.15, f"{because}; that costs {cost}, never this much")
    return supported(0.9 if s.poor_acceptance else 0.7, f"{because}; that costs {cost}")


def layer_count(e: Evidence, s: Signs) -> Opinion:
    for error in e.log.errors:
        if error.row == "fc_width" and len(error.numbers) == 4:
            have, want = int(error.numbers[1]), int(error.numbers[2])
            hidden = e.drafter.hidden
            counted = (
                f" = {have // hidden} captured layers where {want // hidden} are needed"
                if hidden and not have % hidden
                else ""
            )
            return supported(
                DIRECT + 0.03,
                f"the engine died at the first request: {have} features against fc width {want}{counted}",
            )
        if error.row in ("aux_count", "layer_range"):
            return supported(DIRECT + 0.03, error.line[-160:])
    faults = layer_faults(e)
    if faults:
        return supported(DIRECT, faults[0])
    return SILENT


def layer_faults(e: Evidence) -> list[str]:
    """Layer ids that cannot work: duplicate, beyond the last layer, or of another number than the drafter's fc takes."""
    d = e.drafter
    found: list[str] = []
    if not d.present or not _layered(e):
        return found
    depth = d.target_layers or d.target_depth
    for name, ids, last in (
        ("target_layer_ids", d.ids, -1),
        ("eagle_aux_hidden_state_layer_ids", d.shifted_ids, 0),
    ):
        if ids is None:
            continue
        if len(set(ids)) != len(ids):
            found.append(f"{name} {_list(ids)} names a layer twice")
        if depth and max(ids) > depth + last:
            found.append(f"{name} {_list(ids)} goes beyond the target's {depth} layers")
        if d.fc_width and d.hidden and d.fc_width != len(ids) * d.hidden:
            found.append(f"{name} names {len(ids)} layers, fc takes {d.fc_width // d.hidden}")
    if d.ids is None and d.shifted_ids is None and d.dflash:
        found.append("no target_layer_ids")
    return found


def vocab_faults(e: Evidence) -> list[str]:
    d = e.drafter
    found: list[str] = []
    if not d.present:
        return found
    if d.vocab is None and _layered(e):
        found.append(f"no vocab_size, so it silently is {SILENT_VOCAB}")
    elif d.vocab is not None and d.target_vocab is not None and d.vocab != d.target_vocab:
        found.append(f"vocab_size {d.vocab}, the target has {d.target_vocab}")
    elif d.vocab is not None and d.mask is not None and d.mask >= d.vocab and not d.target_vocab:
        found.append(
            f"vocab_size {d.vocab} does not reach the config's own mask_token_id {d.mask}: ids beyond it can"
            " never be proposed"
        )
    return found


def vocab(e: Evidence, s: Signs) -> Opinion:
    for error in e.log.errors:
        if error.row == "vocab_width" and len(error.numbers) == 4:
            return supported(
                DIRECT + 0.03,
                f"the engine died at the first request: {error.numbers[1]} logits against {error.numbers[3]}",
            )
    faults = vocab_faults(e)
    if faults and s.died:
        return supported(0.9, faults[0])
    if faults:
        return supported(0.6 if s.dead else 0.9, faults[0])
    return SILENT


def several_at_once(e: Evidence, s: Signs) -> Opinion:
    doubts = sum(
        bool(part)
        for part in (
            mask_faults(e),
            vocab_faults(e),
            _off_family(e),
            e.drafter.present and e.drafter.rope is None,
        )
    )
    if not s.dead or _band(s.first) not in ("mask", "tensors") or doubts < 2:
        return SILENT
    return supported(
        0.7,
        f"{doubts} fields are doubtful at once; they hide each other, so mending one shows no movement: lint"
        " all of them first",
        ASK_DRAFTER,
    )


def window(e: Evidence, s: Signs) -> Opinion:
    d = e.drafter
    if "mixed_attention" in _errors(e):
        return supported(DIRECT + 0.03, "the engine refuses windowed and full layers mixed on the V1 runner")
    full = e.settings.engine == "vllm" and older(e.settings.version, "0.25.0") is True
    if d.windowed and full:
        because = (
            f"the drafter has windowed layers and vLLM {e.settings.version} runs them all full (support came"
            " with 0.25.0)"
        )
        if s.dead:
            return supported(0.35, f"{because}; that bites beyond the window and does not kill position 0")
        return supported(DIRECT if s.cut or s.cliff or s.weak or s.shorter else 0.6, because)
    if (
        s.shorter
        and e.baseline
        and e.mean_prompt
        and e.baseline.prompt_tokens
        and e.mean_prompt > 4 * e.baseline.prompt_tokens
    ):
        return supported(
            SIGNATURE,
            f"prompts of {e.mean_prompt:.0f} tokens against the baseline's {e.baseline.prompt_tokens:.0f}: "
            "fine short, bad long",
            "the same prompts cut short, and long ones, in one run each",
        )
    if s.cut and not d.windowed and d.present:
        return excluded("the drafter has no windowed layers")
    if s.cut or (s.cliff and not d.present):
        return supported(
            FITS if s.cut else POSSIBLE, "the curve breaks off, as with windowed layers run full", ASK_DRAFTER
        )
    if (s.weak or s.below_reference) and (e.mean_prompt or 0) > 16_000:
        return supported(
            FITS,
            f"prompts of {e.mean_prompt:.0f} tokens: acceptance falls beyond a window",
            "the same measurement with short prompts",
        )
    return SILENT


def wrong_target(e: Evidence, s: Signs) -> Opinion:
    d = e.drafter
    if d.target_layers and d.target_depth and d.target_layers != d.target_depth:
        return supported(
            DIRECT, f"the drafter was trained for {d.target_layers} layers, the target has {d.target_depth}"
        )
    if any("num_target_layers=" in note for note in e.log.notes):
        return supported(DIRECT, "the engine warns that the drafter was trained for another number of layers")
    if s.dead and _band(s.first) == "gone":
        return supported(
            0.6,
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


def _list(ids: tuple[int, ...]) -> str:
    return "[" + ", ".join(str(number) for number in ids[:16]) + "]"
