"""Catalogue rows of compared answers: is the service on another host the same one?"""

from __future__ import annotations

from checks.data.entry import Entry

_ENGINES = "read in vLLM 0.20.1, 0.32.0 and 0.33.0 and SGLang 0.5.11"

ANSWERS: dict[str, Entry] = {
    "serve.answers": Entry(
        "All questions were answered, and to their end",
        "A comparison says something only when both services took the same questions. A question that the source"
        " takes and the target does not means another context length, another vocabulary, or an engine that fails.",
        "fail engine serve.answers 3 questions in a row failed, the last with: /v1/completions: 500 EngineCore"
        " encountered an issue",
        "Read the engine's log: provcheck serve URL --log FILE --diagnose.",
        _ENGINES,
    ),
    "serve.answers_tokenizer": Entry(
        "A text is the same tokens to both",
        "A tokenizer of another revision splits some texts otherwise, adds or lacks a first token, or knows other"
        " special tokens. Such a service starts and answers, and worse.",
        "fail engine serve.answers_tokenizer other tokens for the same text: signs, special",
        "Copy the tokenizer's files with the model, from the same commit, and restart.",
        f"/tokenize and /detokenize, {_ENGINES}",
    ),
    "serve.answers_template": Entry(
        "A chat is the same tokens to both",
        "The template comes from the model's files, from a flag or from the engine's own list, and each can differ"
        " between two hosts. The answers to plain texts are then equal and those to chats are not.",
        "fail engine serve.answers_template the same chat is rendered otherwise: system, tool",
        "Use the chat template of the source: --chat-template, or the model's own file.",
        f"/tokenize with messages, or the prompt's ids in the answer to a chat; SGLang 0.5.11 shows neither: there the"
        f" lengths of the chats and the files' digests stand for it; {_ENGINES}",
    ),
    "serve.answers_logprobs": Entry(
        "Both find the source's answers equally likely",
        "Two machines with the same weights round differently, so their texts part sooner or later, while the"
        " probability of a given text stays the same. Other weights, another quantisation or a wrong RoPE show here"
        " at once.",
        "fail engine serve.answers_logprobs 2.31 nat mean difference over 624 tokens of 26 answers",
        "Compare commit, quantisation, dtype and flags of the two: provcheck compare SOURCE TARGET.",
        f"prompt_logprobs (vLLM), input_token_logprobs (SGLang), {_ENGINES}; the limit is that of the house, other per"
        " service: thresholds={'answers_logprob': 0.2}",
    ),
    "serve.answers_first_token": Entry(
        "Both begin their answers alike",
        "The first token of a greedy answer follows from the prompt alone. Where an engine tells no probabilities at"
        " all, places within the source's answers are looked at as well.",
        "fail engine serve.answers_first_token 20 of 26 answers begin with the source's token: 0.769",
        "Compare commit, quantisation, dtype and flags of the two: provcheck compare SOURCE TARGET.",
        "greedy answers differ where two tokens are equally likely, so one of 26 may; the limit is that of the house,"
        " other per service: thresholds={'answers_first_token': 0.9}",
    ),
    "serve.answers_text": Entry(
        "The answers are equal where they must be, and its own where not",
        "On the same kind of GPU, with the same engine and tensor-parallel size, greedy answers are equal, but for a"
        " choice between two tokens that are equally likely, which changes with the other requests of a batch."
        " Anywhere else a target must at least say what it finds likely itself: a broken decoder or drafter weighs a"
        " text well and makes another.",
        "fail engine serve.answers_text 24 of 26 answers are others: capital from token 2 on",
        "Compare commit, quantisation, dtype and flags; try it with speculation off and without CUDA graphs.",
        "two neighbouring bfloat16 numbers between 16 and 32, where the greatest logits lie, are 0.125 apart",
    ),
}
