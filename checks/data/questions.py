"""The fixed questions by which two services are held to be the same: plain texts and chats, the same everywhere.

Texts are continued as they are, chats go through the model's template. They are short on purpose: an engine computes
the probabilities of a whole prompt at once (tokens x vocabulary x 4 bytes and more, outside what it reserved), and dies
when that does not fit. Changing a line here makes kept answers incomparable: raise VERSION with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

VERSION = 1

MAX_TOKENS = 24
"""Tokens of one answer: 26 answers are some 600 tokens, under a minute at 15 tok/s."""


@dataclass(frozen=True)
class Question:
    """``text`` of a completion, or ``messages`` (with ``tools``) of a chat; exactly one of them is set."""

    id: str
    text: str | None = None
    messages: tuple[dict[str, Any], ...] = ()
    tools: tuple[dict[str, Any], ...] = ()

    @property
    def chat(self) -> bool:
        return self.text is None


def _chat(ident: str, user: str, system: str | None = None) -> Question:
    head = ({"role": "system", "content": system},) if system is not None else ()
    return Question(ident, messages=(*head, {"role": "user", "content": user}))


_WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a place today.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "unit": {"type": "string", "enum": ["C", "F"]}},
            "required": ["city"],
        },
    },
}

_LONG = " ".join(
    f"On day {day} the ferry carried {day * 37 % 90 + 3} passengers and {day * 11 % 7} bicycles."
    for day in range(1, 13)
)

TEXTS: tuple[Question, ...] = (
    Question("capital", "The capital of France is"),
    Question("count", "1, 2, 3, 4, 5, 6, 7,"),
    Question("square", "def square(x: int) -> int:\n    return"),
    Question("c", "#include <stdio.h>\n\nint main(void)\n{\n\tprintf("),
    Question("json", '{"name": "Ada", "born": 1815, "languages": ["English", "French"], "died":'),
    Question("csv", "city;country;people\nOslo;Norway;717710\nBergen;Norway;291940\nTromsø;"),
    Question("german", "Übermorgen fährt der Zug um fünf nach drei, weil die Straße gesperrt ist. Deshalb"),
    Question("japanese", "東京は日本の首都です。大阪は"),
    Question("arabic", "عاصمة مصر هي"),
    Question("signs", "naïve cafe\u0301 \u200bzero\u00a0width 👩‍🔬🏳️‍🌈 ∑ᵢ xᵢ² ≤ ∞ —"),
    Question("blanks", "a  b   c\t\td\n\n\n    e        f\r\ng"),
    Question("special", "Text that looks like a token of its own: <|im_end|> </s> [INST] <unk> and then"),
    Question("story", "Once upon a time, in a small harbour town, a lighthouse keeper found"),
    Question("long", f"{_LONG} In short, over these twelve days"),
)

CHATS: tuple[Question, ...] = (
    _chat("hello", "Hello!"),
    _chat("system", "What is 17 times 3?", "You answer with one number and nothing else."),
    _chat("empty-system", "Name a colour.", ""),
    _chat("unicode", "Übersetze ins Französische: »Schöne Grüße!« 🙂"),
    _chat("chinese", "用一句话介绍长城。"),
    _chat("code", "Write a Python one-liner that reverses the words of a sentence. Code only."),
    _chat("object", 'Answer with JSON only, like {"ok": true}: is 7 a prime number?'),
    _chat("markup", "What does <b>bold</b> & <|im_start|>user mean in this text?"),
    _chat("lines", "  first line\n\n\tsecond line  \n"),
    Question(
        "turns",
        messages=(
            {"role": "user", "content": "My name is Ada."},
            {"role": "assistant", "content": "Hello Ada, how can I help?"},
            {"role": "user", "content": "What is my name?"},
        ),
    ),
    Question(
        "tool",
        messages=({"role": "user", "content": "How warm is it in Bergen today?"},),
        tools=(_WEATHER,),
    ),
    _chat("long-chat", f"{_LONG}\n\nHow many days does this diary cover?", "You are brief."),
)

QUESTIONS: tuple[Question, ...] = (*TEXTS, *CHATS)
