"""Does an answer say anything? Empty, looping and unreadable answers are told apart. Pure."""

from __future__ import annotations

from dataclasses import dataclass

MIN_WORDS = 24


@dataclass(frozen=True)
class Look:
    """What one answer looks like. ``loop`` is the share of its second half that repeats one short period."""

    empty: bool
    loop: float
    one_word: bool
    unreadable: bool
    leaked_thinking: bool


def look(content: str, reasoning: str) -> Look:
    text = content or reasoning
    words = text.split()
    tail = words[len(words) // 2 :]
    return Look(
        empty=not text.strip(),
        loop=_loop(tail) if len(words) >= MIN_WORDS else _loop_of_characters(text),
        one_word=len(words) >= MIN_WORDS
        and max(words.count(word) for word in set(words[:400])) > 0.9 * len(words),
        unreadable=_unreadable(text),
        leaked_thinking="<think>" in content or "</think>" in content,
    )


def faults(looks: list[Look]) -> tuple[list[str], list[str]]:
    """(what makes the service useless, what is worth a look), as sentences; both empty when all is well."""
    bad: list[str] = []
    odd: list[str] = []
    count = len(looks)
    empty = sum(one.empty for one in looks)
    broken = sum(one.unreadable for one in looks)
    stuck = sum(one.one_word for one in looks)
    looping = sum(one.loop > 0.8 for one in looks)
    if empty:
        (bad if empty == count else odd).append(f"{empty} of {count} answers are empty")
    if broken:
        (bad if broken > count / 2 else odd).append(f"{broken} of {count} answers are unreadable characters")
    if stuck:
        (bad if stuck == count - empty else odd).append(f"{stuck} of {count} answers repeat one word")
    elif looping:
        odd.append(f"{looping} of {count} answers end in a loop")
    if any(one.leaked_thinking for one in looks):
        odd.append("reasoning arrives inside the content: set the model's --reasoning-parser")
    return bad, odd


def _loop(words: list[str]) -> float:
    """Share of words that equal the one a short period earlier, for the best period of up to 12 words."""
    best = 0.0
    for period in range(1, min(12, len(words) // 3) + 1):
        same = sum(a == b for a, b in zip(words, words[period:], strict=False))
        best = max(best, same / (len(words) - period))
    return best


def _loop_of_characters(text: str) -> float:
    tail = list(text[len(text) // 2 :])
    return _loop(tail) if len(tail) >= 60 else 0.0


def _unreadable(text: str) -> bool:
    if not text:
        return False
    odd = sum(letter == "\ufffd" or (not letter.isprintable() and letter not in "\n\t\r") for letter in text)
    return odd > 0.2 * len(text)
