"""What each name of tokenizer.ggml.pre stands for: the expressions of the models' tokenizer.json files, as data for
Hugging Face `tokenizers`. The list of names is llama.cpp's (src/llama-vocab.cpp); where that file approximates an
expression the model's own is here. Written apart from src/text/recipe.c, which the tests compare with it."""

import os
import sys

from tokenizers import Regex, normalizers, pre_tokenizers

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts"))
import make_unicode_table

CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
SPACES = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*" + SPACES
QWEN2 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*" + SPACES
QWEN35 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*" + SPACES
BAILING = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]"
           r"|\s+(?!\S)|\s+")
MINICPM5 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*" + SPACES
SEED = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+" + SPACES
UFAK = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*" + SPACES
EXAONE_MOE = (CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}"
              r"| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+")
JAIS2 = (CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
         + "".join(r"\s{%d}(?!\S)|" % n for n in (512, 256, 128, 64, 32, 16, 8, 4)) + r"\s{1,2}(?!\S)|\s{1}")


def mixed(contractions, digits, tail, without=""):
    upper, lower = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}%s]" % without, r"[\p{Ll}\p{Lm}\p{Lo}\p{M}%s]" % without
    front = r"[^\r\n\p{L}\p{N}]?"
    behind = CONTRACTIONS + "?" if contractions else ""
    return (front + upper + "*" + lower + "+" + behind + "|" + front + upper + "+" + lower + "*" + behind
            + "|" + digits + r"| ?[^\s\p{L}\p{N}]+" + tail + SPACES)


GPT4O = mixed(True, r"\p{N}{1,3}", r"[\r\n/]*")
TEKKEN = mixed(False, r"\p{N}", r"[\r\n/]*")
YOUTU = mixed(True, r"\p{N}", r"[\r\n/]*")
KIMI = r"[\p{Han}]+|" + mixed(True, r"\p{N}{1,3}", r"[\r\n]*", r"&&[^\p{Han}]")
ASCII_SIGNS = r'''[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]'''
DEEPSEEK3 = (ASCII_SIGNS + r"[A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*" + SPACES)
SPARK = (ASCII_SIGNS + r"[A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+")
CJK = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
CJK_WIDE = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
CJK_AFMOE = ("[\u4e00-\u9fff\u3400-\u4dbf\u8c48-\ufaff\u3040-\u309f\u30a0-\u30ff\uff65-\uff9f\u2f00-\u2fdf"
             "\u0e40-\u0e7f\u0e80-\u0eff\u1780-\u17ff\u1000-\u109f\uaa60-\uaa7f\ua9e0-\ua9ff\uac00-\ud7af"
             "\u1100-\u11ff]+")
CJK_YOUTU = ("[\uac00-\ud7a3\u3131-\u318e]+|[\uff01\u2026\u201c\u201d\u2018\u2019\u2014\uff1a\uff1b\uff0c"
             "\u3001-\u303f\ufe30-\ufe4f]+|[\u3105-\u312f]+|" + CJK)
DEEPSEEK_LETTERS = r"\s?[%s]+" % "".join(
    "%s-%s" % (chr(int(first, 16)), chr(int(last or first, 16)))
    for first, _, last in (item.partition("-") for item in make_unicode_table.DEEPSEEK.split()))
DEEPSEEK_PUNCT = "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+"
BLOOM = " ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+"
LINES = r"[^\n]+|[\n]+"
# \p{N} in threes from the right. (llama.cpp: \p{AFMoE_digits}, with code of its own.)
GROUPS = r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))"
DIGITS = "digits"  # the step Digits(individual_digits=True)


class Recipe:
    def __init__(self, names, *steps, nfc=False, whole=False, raw=False):
        self.names, self.steps, self.nfc, self.whole, self.raw = names.split(), steps, nfc, whole, raw

    def pre_tokenizer(self, byte_level):
        steps = [pre_tokenizers.Digits(individual_digits=True) if s is DIGITS
                 else pre_tokenizers.Split(Regex(s), "isolated") for s in self.steps]
        if byte_level and not self.raw:
            steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False))
        return pre_tokenizers.Sequence(steps)

    def normalizer(self):
        if self.raw:
            return normalizers.Replace(" ", "\u2581")
        return normalizers.NFC() if self.nfc else None


RECIPES = [
    Recipe("llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano", LLAMA3, whole=True),
    Recipe("glm4 glm5", LLAMA3, whole=True),
    Recipe("dbrx smaug-bpe chatglm-bpe", LLAMA3),
    Recipe("jais-2", JAIS2),
    Recipe("minicpm5", r"\p{N}{1,3}", MINICPM5, whole=True),
    Recipe("qwen2 deepseek-r1-qwen kormo f2llmv2 megrez", QWEN2, nfc=True),
    Recipe("stablelm2 hunyuan solar-open grok-2", QWEN2),
    Recipe("bailingmoe bailingmoe2 llada-moe", BAILING),
    Recipe("qwen35", QWEN35, nfc=True),
    Recipe("seed-coder", SEED),
    Recipe("ufakzeka", UFAK),
    Recipe("exaone-moe", EXAONE_MOE),
    Recipe("laguna", LINES, QWEN2),
    Recipe("gpt-4o llama4 kanana2 talkie minimax-m2", GPT4O),
    Recipe("granite-embed-multi-97m", GPT4O, whole=True),
    Recipe("tiny_aya cohere2moe", r"\d{1,3}(?=(?:\d{3})*\b)", GPT4O),
    Recipe("youtu", CJK_YOUTU, YOUTU, whole=True),
    Recipe("kimi-k2", KIMI),
    Recipe("tekken", TEKKEN, whole=True),
    Recipe("deepseek-v3 hunyuan-dense joyai-llm hy_v4", r"\p{N}{1,3}", CJK, DEEPSEEK3),
    Recipe("spark2_5", r"\p{N}{1,3}", CJK, SPARK, r"\p{N}"),
    Recipe("afmoe", GROUPS, CJK_AFMOE, DEEPSEEK3),
    Recipe("deepseek-llm", "[\r\n]", DEEPSEEK_LETTERS, DEEPSEEK_PUNCT, r"\s+$", CJK_WIDE, r"\p{N}+"),
    Recipe("deepseek-coder", "[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", CJK_WIDE, r"\p{N}"),
    Recipe("falcon", r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"),
    Recipe("default", r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"),
    Recipe("command-r", DIGITS, GPT2, nfc=True),
    Recipe("smollm starcoder refact codeshell exaone minerva-7b mellum2", DIGITS, GPT2),
    Recipe("mpt olmo modern-bert gpt-neox", GPT2, nfc=True),
    Recipe("gpt-2 phi-2 jina-es jina-de jina-v2-es jina-v2-de gigachat a.x-4.0 mellum jais exaone4 trillion "
           "granite-docling jina-v1-en jina-v2-code roberta-bpe", GPT2),
    Recipe("bloom poro-chat gpt3-finnish", BLOOM),
    Recipe("viking", BLOOM, r"\p{N}"),
    Recipe("superbpe", r"\p{N}+", r"(?=(\d{3})+(?!\d))"),
    Recipe("chameleon", "<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", "([\\t\\n]|    |  )", r"\p{N}",
           r"[\p{P}!-/:-@\[-`{-~]", GPT2),
    Recipe("gemma4 granite-embed-multi-311m sarvam-moe", LINES, raw=True),
]
