"""What each engine's server tells of tokens and their probabilities, and under which name: read in its sources."""

from __future__ import annotations

from typing import NamedTuple


class Api(NamedTuple):
    """``what`` is asked for; ``path`` and ``how`` are the engine's own words for it."""

    engine: str
    what: str
    path: str
    how: str
    source: str


_VLLM = "vLLM 0.20.1, 0.32.0 and 0.33.0"
_SGLANG = "SGLang 0.5.11"

APIS: tuple[Api, ...] = (
    Api(
        "vllm",
        "tokens of a text",
        "/tokenize",
        "prompt -> tokens",
        f"{_VLLM}: entrypoints/serve/tokenize/protocol.py",
    ),
    Api(
        "vllm",
        "tokens of a rendered chat",
        "/tokenize",
        "messages, tools, add_generation_prompt -> tokens",
        f"{_VLLM}: TokenizeChatRequest, rendered as chats are (the server's template and its default arguments)",
    ),
    Api(
        "vllm",
        "text of tokens",
        "/detokenize",
        "tokens -> prompt",
        f"{_VLLM}: DetokenizeResponse",
    ),
    Api(
        "vllm",
        "an answer with its tokens and probabilities",
        "/v1/completions",
        "prompt=[ids], logprobs=1, return_token_ids -> choices[0].token_ids, logprobs.token_logprobs",
        f"{_VLLM}: entrypoints/openai/completion/protocol.py; before 0.10.2 return_tokens_as_token_ids only",
    ),
    Api(
        "vllm",
        "probabilities of given tokens",
        "/v1/completions",
        "prompt=[ids + answer], prompt_logprobs=1, max_tokens=1 -> choices[0].prompt_logprobs[i] = {id: {logprob}}",
        f"{_VLLM}: computed without the prefix cache, for the whole prompt at once (issues 5907 and 38830)",
    ),
    Api(
        "sglang",
        "tokens of a text",
        "/tokenize",
        "prompt -> tokens",
        f"{_SGLANG}: srt/entrypoints/openai/protocol.py, TokenizeRequest",
    ),
    Api(
        "sglang",
        "text of tokens",
        "/detokenize",
        "tokens, skip_special_tokens -> text",
        f"{_SGLANG}: DetokenizeRequest",
    ),
    Api(
        "sglang",
        "an answer with its tokens and probabilities",
        "/generate",
        "input_ids, return_logprob -> output_ids, meta_info.output_token_logprobs[i] = [logprob, id, text]",
        f"{_SGLANG}: srt/managers/tokenizer_manager.py",
    ),
    Api(
        "sglang",
        "probabilities of given tokens",
        "/generate",
        "logprob_start_len, top_logprobs_num=1, max_new_tokens=1 -> meta_info.input_token_logprobs, "
        "input_top_logprobs; the first has none",
        f"{_SGLANG}: srt/managers/scheduler_output_processor_mixin.py",
    ),
)

NO_RENDERING = {
    "sglang": f"{_SGLANG} has no endpoint that shows a rendered chat: its TokenizeRequest takes a prompt only"
}
"""Engines that show no rendered chat: the digests of the tokenizer's files and the length of a chat stand for it."""

NO_PROBABILITIES = {
    "speculative decoding does not support return_logprob": (
        f"{_SGLANG} refuses each request for log-probabilities with a DFlash drafter (srt/managers/scheduler.py); "
        "sgl-project/sglang#33459 lifts it"
    ),
    "--kv-sharing-fast-prefill produces incorrect logprobs": (
        "vLLM 0.32.0 and 0.33.0 refuse to weigh a prompt under this flag (v1/engine/async_llm.py)"
    ),
}
"""What an engine says that cannot tell probabilities at all, and where that is written."""

TOKENIZER_FILES = (
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"),
    *("chat_template.jinja", "chat_template.json", "vocab.json", "merges.txt", "tokenizer.model"),
    *("tiktoken.model", "tekken.json"),
)
"""Files of a model that say how text becomes tokens, and chats become text (transformers' save_pretrained, Mistral)."""
