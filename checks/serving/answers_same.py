"""Is a text, and a chat, the same tokens to two services? Pure."""

from __future__ import annotations

from collections.abc import Iterable

from checks.data.answer_apis import NO_RENDERING
from checks.data.questions import CHATS, TEXTS, Question
from checks.model import Finding, Status
from checks.serving.answers_sides import BROKE, Compared, finding


def tokenizer(c: Compared) -> Finding:
    """Do both make the same tokens of a text, and the same text of tokens?"""
    ident = "serve.answers_tokenizer"
    seen = [(c.source.items[one.id], c.held[one.id]) for one in TEXTS if one.id in c.held]
    known = [(item, held) for item, held in seen if item.prompt is not None and held.prompt is not None]
    other = [item.id for item, held in known if item.prompt != held.prompt]
    other += [
        f"{item.id} (text of the answer)"
        for item, held in c.pairs()
        if item.spelled is not None and held.spelled is not None and item.spelled != held.spelled
    ]
    fix = "copy the tokenizer's files with the model, from the same commit, and restart"
    if other:
        return finding(ident, Status.FAIL, f"other tokens for the same text: {', '.join(other)}", fix)
    if differing := _differing(c, ("chat_template", "tokenizer_config.json")):
        return finding(ident, Status.FAIL, f"other files: {', '.join(differing)}", fix)
    if known and len(known) + len(_lost(c, TEXTS)) == len(TEXTS):
        return finding(
            ident, Status.PASS, f"{len(known)} texts have the same tokens", None, len(known), len(TEXTS)
        )
    if not c.met.down and not c.met.stopped and not known and _same_files(c, "tokenizer"):
        told = "the engines show no tokens of a text; the tokenizer's files are equal by sha256"
        return finding(ident, Status.PASS, told, None)
    told = f"the tokens of {len(known)} of {len(TEXTS)} texts could be compared"
    return finding(ident, Status.UNKNOWN, told, "give the model's folder on both sides: --tokenizer DIR")


def template(c: Compared) -> Finding:
    """Do both make the same tokens of a chat?"""
    ident, fix = (
        "serve.answers_template",
        "use the chat template of the source: --chat-template, or the model's own file",
    )
    seen = [(c.source.items[one.id], c.held[one.id]) for one in CHATS if one.id in c.held]
    known = [(item, held) for item, held in seen if item.prompt is not None and held.prompt is not None]
    other = [item.id for item, held in known if item.prompt != held.prompt]
    other += [
        f"{item.id} ({item.length} tokens, here {held.length})"
        for item, held in seen
        if item.length is not None and held.length is not None and item.length != held.length
        if item.id not in other
    ]
    refused = {item.id for item, _ in seen if item.why.startswith("refused")}
    here = {held.id for _, held in seen if held.refused}
    other += [f"{ident} (refused by one of the two)" for ident in sorted(refused ^ here)]
    if other:
        return finding(ident, Status.FAIL, f"the same chat is rendered otherwise: {', '.join(other)}", fix)
    if refused and len(refused) == len(CHATS):
        return finding(ident, Status.SKIP, "neither of the two has a chat template", None)
    if known and len(known) + len(refused) + len(_lost(c, CHATS)) == len(CHATS):
        told = f"{len(known)} chats are rendered to the same tokens"
        return finding(ident, Status.PASS, told, None, len(known), len(CHATS))
    counted = [item.id for item, held in seen if item.length is not None and item.length == held.length]
    files = ("chat_template", "tokenizer_config.json")
    if counted and not _differing(c, (), files) and _same_files(c, *files):
        shown = next((NO_RENDERING[kind] for kind in (c.source.engine, c.kind) if kind in NO_RENDERING), "")
        told = f"{len(counted)} chats have the same length, and the template's files are equal by sha256"
        return finding(ident, Status.PASS, f"{told} ({shown or 'rendered chats are not shown'})", None)
    if differing := _differing(c, (), files):
        return finding(ident, Status.FAIL, f"other files: {', '.join(differing)}", fix)
    told = f"{len(known)} of {len(CHATS)} rendered chats could be compared"
    return finding(ident, Status.UNKNOWN, told, "give the model's folder on both sides: --tokenizer DIR")


def _lost(c: Compared, questions: Iterable[Question]) -> set[str]:
    """Questions at which the source itself failed: there is nothing to compare with."""
    return {one.id for one in questions if c.source.items[one.id].why.startswith(BROKE)}


def _differing(c: Compared, beside: tuple[str, ...], only: tuple[str, ...] = ("",)) -> list[str]:
    """Files that both have and that differ; of those whose name starts with one of ``only`` and none of ``beside``."""
    names = [name for name in c.source.files.keys() & c.files.keys() if name.startswith(only)]
    return sorted(
        name for name in names if not name.startswith(beside) and c.source.files[name] != c.files[name]
    )


def _same_files(c: Compared, *starts: str) -> bool:
    """Are the files whose names start so there on both sides, the same ones, and equal?"""
    one = {name: digest for name, digest in c.source.files.items() if name.startswith(starts)}
    return bool(one) and one == {name: digest for name, digest in c.files.items() if name.startswith(starts)}
