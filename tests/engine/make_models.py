"""Makes the tiny models that the real engine serves: run by the engine's own interpreter, which has torch.

    python make_models.py FOLDER        FOLDER/target  FOLDER/good  FOLDER/bad

``target`` is a Qwen3 whose output layer was set so that each word is followed by one certain other word, in circles
of PERIOD words: greedy answers are readable, never loop within a few words, and repeat after PERIOD (which n-gram
speculation lives on). Its layers are random. ``good`` is a copy of it; ``bad`` has the same shape and tokenizer and
random weights everywhere, as a drafter that was never trained.
"""

from __future__ import annotations

import itertools
import json
import shutil
import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

SPECIAL = ("<|endoftext|>", "<|unk|>")
VOCAB, PERIOD = 512, 51
TEMPLATE = (
    "{% for one in messages %}{{ one.content }} {% endfor %}{{ words[messages[-1].content | length % 10] }}"
)


def words() -> list[str]:
    """VOCAB - 2 words of two syllables."""
    syllables = ["".join(pair) for pair in itertools.product("bdfgklmnprstvz", "aeiou")]
    pairs = itertools.product(syllables, syllables[::3])
    return list(itertools.islice((a + b for a, b in pairs), 0, 3 * (VOCAB - len(SPECIAL)), 3))


def successor(token: int) -> int:
    """The next word of the circle that a word belongs to; the two special tokens lead into the first circle."""
    if token < len(SPECIAL):
        return len(SPECIAL) + token
    circle, at = divmod(token - len(SPECIAL), PERIOD)
    return len(SPECIAL) + circle * PERIOD + (at + 1) % PERIOD


def model(seed: int, *, trained: bool) -> Qwen3ForCausalLM:
    torch.manual_seed(seed)
    made = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=VOCAB,
            hidden_size=128,
            intermediate_size=256,
            num_hidden_layers=4,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=32,
            max_position_embeddings=4096,
            rope_parameters={"rope_type": "default", "rope_theta": 1_000_000.0},
            tie_word_embeddings=False,
            bos_token_id=0,
            eos_token_id=0,
        )
    )
    if trained:
        with torch.no_grad():
            embed, head = made.model.embed_tokens.weight, made.lm_head.weight
            embed.normal_()
            head.zero_()
            for token in range(VOCAB):
                head[successor(token)] += embed[token] / 16
            head[: len(SPECIAL)] = 0
    return made.to(torch.bfloat16)


def tokenizer() -> PreTrainedTokenizerFast:
    vocab = {word: index for index, word in enumerate((*SPECIAL, *words()))}
    bare = Tokenizer(models.WordLevel(vocab, unk_token=SPECIAL[1]))
    bare.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made = PreTrainedTokenizerFast(
        tokenizer_object=bare, eos_token=SPECIAL[0], pad_token=SPECIAL[0], unk_token=SPECIAL[1]
    )
    made.chat_template = TEMPLATE.replace("words[", json.dumps(words()[::PERIOD]) + "[")
    return made


def main(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    for name, seed, trained in (("target", 1, True), ("bad", 2, False)):
        model(seed, trained=trained).save_pretrained(folder / name)
        tokenizer().save_pretrained(folder / name)
    shutil.copytree(folder / "target", folder / "good")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
