#!/usr/bin/env python3
"""Filling in the middle: the tokens of a model that was trained for it (its vocabulary alone; the answers are scripted).

    test_fim.py HASTEN QWEN_CODER.gguf"""

import sys
import unittest

from serving import Server

HASTEN, MODEL = sys.argv[1], sys.argv[2]
PREFIX, MIDDLE, SUFFIX, FILE = 151659, 151660, 151661, 151664  # as Qwen2.5-Coder's report lists them


class Filling(unittest.TestCase):
    def test_prompts(self):
        with Server(HASTEN, f"script:hash=1,vocab={MODEL}") as s:
            def ids(text):
                return s.post("/tokenize", {"content": text}).json()["tokens"]

            def one(path, body):
                a = s.post(path, body | {"max_tokens": 1, "ignore_eos": True, "seed": 1, "temperature": 0})
                self.assertEqual(a.status, 200, a.body)
                return a.json()
            before, behind = "int a = <|fim_middle|>", ";\nreturn a;"
            prompt = [PREFIX, *ids(before), SUFFIX, *ids(behind), MIDDLE]
            plain = one("/v1/completions", {"prompt": prompt})
            filled = one("/v1/completions", {"prompt": before, "suffix": behind})
            self.assertEqual(filled["usage"]["prompt_tokens"], len(prompt))
            self.assertEqual(filled["choices"], plain["choices"])
            r = one("/infill", {"input_prefix": before, "input_suffix": behind})
            self.assertEqual((r["content"], r["tokens_evaluated"], r["stop_type"]), (plain["choices"][0]["text"], len(prompt), "limit"))
            more = [FILE, *ids("a.c\nint b;\n"), FILE, *prompt, *ids("(")]
            plain = one("/v1/completions", {"prompt": more})
            r = one("/infill", {"input_prefix": before, "input_suffix": behind, "prompt": "(",
                                "input_extra": [{"filename": "a.c", "text": "int b;"}]})
            self.assertEqual((r["content"], r["tokens_evaluated"]), (plain["choices"][0]["text"], len(more)))
            events = s.post("/infill", {"input_prefix": before, "stream": True, "max_tokens": 3, "ignore_eos": True}).events()
            self.assertEqual([e["stop"] for e in events], [False] * (len(events) - 1) + [True])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
