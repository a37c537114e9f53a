"""A language model of transformers with two tiny layers and random weights, as save_pretrained writes one.

It stands for a pretrained model, without a download; its tokenizer knows the words of reviews.py."""

import json
import struct
from random import Random

from drivetrain.pipelines.data.reviews import BAD, GOOD, THINGS

HIDDEN, INNER, LAYERS, POSITIONS = 32, 64, 2, 64
WORDS = ("[PAD]", "[UNK]", "[BOS]", "[EOS]", "the", "was", *THINGS, *GOOD, *BAD)


def files() -> dict[str, bytes]:
    """The files of the folder."""
    vocabulary = {word: number for number, word in enumerate(WORDS)}
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "bos_token": "[BOS]", "eos_token": "[EOS]"}
    marked = ("single_word", "lstrip", "rstrip", "normalized")
    added = [{"id": vocabulary[w], "content": w, "special": True} | dict.fromkeys(marked, False) for w in WORDS[:4]]
    tokenizer = {
        "version": "1.0",
        "added_tokens": added,
        "pre_tokenizer": {"type": "Whitespace"},
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]"},
    }
    config = {
        **{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "dtype": "float32"},
        **{"vocab_size": len(WORDS), "hidden_size": HIDDEN, "intermediate_size": INNER, "num_hidden_layers": LAYERS},
        **{"num_attention_heads": 4, "num_key_value_heads": 4, "max_position_embeddings": POSITIONS},
        **{"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3},
    }
    told = {"tokenizer.json": tokenizer, "config.json": config}
    told["tokenizer_config.json"] = {"tokenizer_class": "PreTrainedTokenizerFast", **special}
    return {**{name: json.dumps(content).encode() for name, content in told.items()}, "model.safetensors": _weights()}


def _weights() -> bytes:
    """In the format safetensors: the length of a header, the header, the numbers."""
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (len(WORDS), HIDDEN)}
    for layer in (f"model.layers.{number}." for number in range(LAYERS)):
        shapes |= {f"{layer}self_attn.{name}_proj.weight": (HIDDEN, HIDDEN) for name in "qkvo"}
        shapes |= {f"{layer}mlp.{name}_proj.weight": (INNER, HIDDEN) for name in ("gate", "up")}
        shapes |= {f"{layer}mlp.down_proj.weight": (HIDDEN, INNER)}
        shapes |= {f"{layer}{name}_layernorm.weight": (HIDDEN,) for name in ("input", "post_attention")}
    shapes |= {"model.norm.weight": (HIDDEN,), "lm_head.weight": (len(WORDS), HIDDEN)}
    draw, numbers, header = Random(7).random, list[float](), dict[str, object]()
    for name, shape in shapes.items():
        begin = len(numbers)
        # Norms begin at 1; the others are drawn with a deviation of 0.1.
        numbers += [0.346 * (draw() - 0.5) if shape[1:] else 1.0 for _ in range(shape[0] * (shape[1:] or (1,))[0])]
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [4 * begin, 4 * len(numbers)]}
    said = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    return struct.pack("<Q", len(said)) + said + struct.pack(f"<{len(numbers)}f", *numbers)
