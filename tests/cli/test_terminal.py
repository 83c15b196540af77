#!/usr/bin/env python3
"""The command on a terminal: chat, its commands, Ctrl-C, progress. Runs it under a pseudo-terminal.

    test_terminal.py HASTEN MAKE_TINY WORK"""

import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

HASTEN, MAKE_TINY, WORK = sys.argv[1], sys.argv[2], Path(sys.argv[3])
MODEL = str(WORK / "llama.gguf")
ENDLESS = ["--ignore-eos", "-s", "1", "-c", "4096"]


class Terminal:
    """A command with a terminal on all three streams."""

    def __init__(self, *args):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ["TERM"] = "dumb"
            os.execv(HASTEN, [HASTEN, *args])
        self.seen = b""

    def until(self, pattern, timeout=60):
        """Reads until pattern stands in what has come since the last call; returns that."""
        end = time.monotonic() + timeout
        while pattern not in self.seen:
            if not select.select([self.fd], [], [], max(0, end - time.monotonic()))[0]:
                raise AssertionError(f"no {pattern!r} in {self.seen!r}")
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                data = b""
            if not data:
                raise AssertionError(f"ended without {pattern!r}: {self.seen!r}")
            self.seen += data
        at = self.seen.index(pattern) + len(pattern)
        got, self.seen = self.seen[:at], self.seen[at:]
        return got

    def send(self, data):
        os.write(self.fd, data)

    def leave(self):
        """Types Ctrl-D until the command ends; the exit status. One typed between the prompt and libedit's switch of
        the terminal to raw mode is not seen as Ctrl-D, so once is not always enough."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                self.send(b"\x04")
                if select.select([self.fd], [], [], 0.3)[0] and not os.read(self.fd, 65536):
                    break
            except OSError:
                break
        return self.close()

    def close(self):
        """Reads to the end; the exit status."""
        while True:
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                break
            if not data:
                break
            self.seen += data
        _, status = os.waitpid(self.pid, 0)
        os.close(self.fd)
        return os.waitstatus_to_exitcode(status)


class Chat(unittest.TestCase):
    def test_talk_and_leave(self):
        t = Terminal("run", MODEL, "-n", "5", "-s", "1")
        t.until(b"/help lists the commands")
        t.until(b"> ")
        t.send(b"hello\n")
        t.until(b"> ")
        t.send(b"/help\n")
        self.assertIn(b"/regen", t.until(b"Ctrl-C stops an answer"))
        t.until(b"> ")
        t.send(b"/bogus\n")
        t.until(b"unknown command '/bogus'")
        t.until(b"> ")
        t.send(b"/exit\n")
        self.assertEqual(t.close(), 0)

    def test_json_is_refused(self):
        """A chat prints no JSON, so it does not take --json; with a prompt it does."""
        t = Terminal("run", MODEL, "--json")
        t.until(b"--json in a chat (expected -p, -f or --turns with it)")
        self.assertEqual(t.close(), 2)
        t = Terminal("run", MODEL, "--json", "-p", "x", "-n", "1")
        t.until(b'"finish_reason"')
        self.assertEqual(t.close(), 0)

    def test_system_prompt_without_template(self):
        t = Terminal("run", MODEL, "--raw", "-n", "2")
        t.until(b"> ")
        t.send(b"/system Be brief.\n")
        t.until(b"there is no chat template to hold it")
        t.until(b"> ")
        t.send(b"/exit\n")
        self.assertEqual(t.close(), 0)

    def test_logits_are_no_text(self):
        (WORK / "short").write_text("the water is cold")
        t = Terminal("eval", MODEL, "--ppl", str(WORK / "short"), "--logits", "-")
        t.until(b"--logits - on a terminal")
        self.assertEqual(t.close(), 2)

    def test_letters_beyond_ascii(self):
        t = Terminal("run", MODEL, "-n", "2")
        t.until(b"> ")
        t.send("/système €\n".encode())
        t.until("unknown command '/système €'".encode())
        t.send(b"/exit\n")
        self.assertEqual(t.close(), 0)

    def test_interrupts_at_the_prompt_are_never_lost(self):
        t = Terminal("run", MODEL, "-n", "2")
        t.until(b"> ")
        for _ in range(200):
            t.send(b"\x03")
            t.until(b"> ")
        t.send(b"/exit\n")
        self.assertEqual(t.close(), 0)

    def test_end_of_file_leaves(self):
        t = Terminal("run", MODEL, "-n", "5")
        t.until(b"> ")
        self.assertEqual(t.leave(), 0)

    def test_interrupt_stops_the_answer_only(self):
        t = Terminal("run", MODEL, *ENDLESS, "--reference")
        t.until(b"> ")
        for _ in range(2):
            t.send(b"go on\n")
            t.until(b"go on\r\n")
            time.sleep(0.3)
            t.send(b"\x03")
            t.until(b"stopped")
            t.until(b"> ")
        t.send(b"\x03")  # at the prompt: a new prompt
        t.until(b"> ")
        t.send(b"/exit\n")
        self.assertEqual(t.close(), 0)

    def test_regenerate_and_clear(self):
        t = Terminal("run", MODEL, "-n", "12", "-s", "1", "--temp", "2", "--ignore-eos")
        t.until(b"> ")
        t.send(b"/regen\n")
        t.until(b"no answer to write again")
        t.until(b"> ")
        t.send(b"tell\n")
        t.until(b"tell\r\n")
        first = t.until(b"limit of tokens")
        t.until(b"> ")
        t.send(b"/regen\n")
        t.until(b"/regen\r\n")
        second = t.until(b"limit of tokens")
        self.assertNotEqual(first, second)
        t.until(b"> ")
        t.send(b"/clear\n")
        t.until(b"/clear\r\n")
        t.until(b"> ")
        t.send(b"/system Be brief.\n")
        t.until(b"brief.\r\n")  # the prompt stands in redrawn lines too
        t.until(b"> ")
        self.assertEqual(t.leave(), 0)

    def test_regenerate_raw(self):
        """Raw, /regen takes the last question and answer out of the transcript, and a failed turn leaves both."""
        t = Terminal("run", MODEL, "--raw", "-n", "12", "-s", "1", "--temp", "2", "--ignore-eos", "-c", "60", "-v")
        t.until(b"> ")
        t.send(b"/regen\n")
        t.until(b"no answer to write again")
        said, read = [], []
        for line in (b"tell", b"/regen", b"go on " * 40, b"/regen"):
            t.until(b"> ")
            t.send(line + b"\n")
            t.until(line[-6:] + b"\r\n")
            if line.startswith(b"go"):
                self.assertNotIn(b"dropped", t.until(b"the context holds 60"))
                continue
            said.append(t.until(b"limit of tokens"))
            counts = re.search(rb"(\d+) tokens read \((\d+) kept", t.until(b" kept"))
            read.append(int(counts[1]) + int(counts[2]))
        self.assertEqual(len(set(said)), 3)
        self.assertEqual(read, [read[0]] * 3)
        t.until(b"> ")
        t.send(b"/clear\n")
        t.until(b"> ")
        t.send(b"/regen\n")
        t.until(b"no answer to write again")
        self.assertEqual(t.leave(), 0)

    def test_dropped_turns_are_said_when_dropped(self):
        t = Terminal("run", MODEL, "-n", "2", "-s", "1", "--ignore-eos", "-c", "60")
        t.until(b"> ")
        t.send(b"a\n")
        t.until(b"limit of tokens")
        t.until(b"> ")
        t.send(b"water " * 40 + b"\n")
        self.assertNotIn(b"dropped", t.until(b"the context holds 60"))
        seen = b""
        for _ in range(8):
            t.until(b"> ")
            t.send(b"b\n")
            seen += t.until(b"limit of tokens")
        self.assertIn(b"is full: dropped the oldest turn\r\n", seen)
        self.assertEqual(t.leave(), 0)

    def test_system_without_text_forgets_nothing(self):
        t = Terminal("run", MODEL, "-n", "2", "-s", "1", "--ignore-eos")
        for line, answer in ((b"tell", b"limit of tokens"), (b"/system", b"usage: /system TEXT"),
                             (b"/system  ", b"usage: /system TEXT"), (b"/regen", b"limit of tokens"),
                             (b"/system x", b""), (b"/regen", b"no answer to write again")):
            t.until(b"> ")
            t.send(line + b"\n")
            t.until(line[-4:] + b"\r\n")
            t.until(answer)
        self.assertEqual(t.leave(), 0)


    def test_save(self):
        path = WORK / "saved.json"
        path.unlink(missing_ok=True)
        t = Terminal("run", MODEL, "-n", "3", "-s", "1", "--ignore-eos", "-sys", "Be brief.")
        for line, answer in ((b"tell", b"limit of tokens"), (b"/save", b"usage: /save FILE"),
                             (b"/save " + bytes(path), b"saved to "), (b"/save " + bytes(path), b"File exists"),
                             (b"/sav x", b"did you mean /save?")):
            t.until(b"> ")
            t.send(line + b"\n")
            t.until(answer)
        self.assertEqual(t.leave(), 0)
        messages = json.loads(path.read_text())
        self.assertEqual([m["role"] for m in messages], ["system", "user", "assistant"])
        self.assertEqual([m["content"] for m in messages[:2]], ["Be brief.", "tell"])
        t = Terminal("run", MODEL, "--raw", "-n", "2", "-s", "1", "--ignore-eos")
        t.until(b"> ")
        t.send(b"the water\n")
        t.until(b"limit of tokens")
        t.until(b"> ")
        path.unlink()
        t.send(b"/save " + bytes(path) + b"\n")
        t.until(b"saved to ")
        self.assertEqual(t.leave(), 0)
        self.assertIn(b"the water", path.read_bytes())

    def test_load(self):
        kept, plain, again = WORK / "kept.seq", WORK / "kept.json", WORK / "again.json"
        for path in (kept, plain, again):
            path.unlink(missing_ok=True)
        t = Terminal("run", MODEL, "-n", "3", "-s", "1", "--ignore-eos", "-sys", "Be brief.")
        for line, answer in ((b"tell", b"limit of tokens"), (b"/save " + bytes(kept), b"saved to "), (b"/save " + bytes(kept), b"File exists"),
                             (b"/save " + bytes(plain), b"saved to ")):
            t.until(b"> ")
            t.send(line + b"\n")
            t.until(answer)
        self.assertEqual(t.leave(), 0)
        t = Terminal("run", MODEL, "-n", "3", "-s", "1", "--ignore-eos", "-v")
        for line, answer in ((b"/load", b"usage: /load FILE"), (b"/load " + bytes(WORK / "none"), b"hasten: "), (b"/load " + MODEL.encode(), b"hasten: "),
                             (b"/load " + bytes(kept), b"goes on from "), (b"/save " + bytes(again), b"saved to "), (b"/regen", b"limit of tokens"),
                             (b"/load " + bytes(plain), b"goes on from "), (b"more", b"limit of tokens")):
            t.until(b"> ")
            t.send(line + b"\n")
            t.until(answer)
        self.assertEqual(t.leave(), 0)
        self.assertEqual(json.loads(plain.read_text()), json.loads(again.read_text()))
        t = Terminal("run", MODEL, "-n", "3", "-s", "1", "--raw")
        t.until(b"> ")
        t.send(b"/load " + bytes(kept) + b"\n")
        t.until(b"of a chat without --raw")
        self.assertEqual(t.leave(), 0)

    def test_questions_of_several_lines(self):
        path = WORK / "lines.json"
        path.unlink(missing_ok=True)
        t = Terminal("run", MODEL, "-n", "2", "-s", "1", "--ignore-eos")
        for lines in ((b"one \\", b"two\\", b"three"), (b'"""four', b"/five", b'six"""'), (b'"""', b"seven", b"", b"eight", b'"""'),
                      (b'"""nine"""',)):
            t.until(b"> ")
            for i, line in enumerate(lines):
                if i:
                    t.until(b". ")
                t.send(line + b"\n")
            t.until(b"limit of tokens")
        t.until(b"> ")
        t.send(b"ten \\\n")
        t.until(b". ")
        t.send(b"\x03")  # gives the question up
        t.until(b"> ")
        t.send(b"/save " + bytes(path) + b"\n")
        t.until(b"saved to ")
        self.assertEqual(t.leave(), 0)
        said = [m["content"] for m in json.loads(path.read_text()) if m["role"] == "user"]
        self.assertEqual(said, ["one \ntwo\nthree", "four\n/five\nsix", "seven\n\neight", "nine"])

    def test_history_is_kept_only_when_asked(self):
        path = WORK / "history"
        path.unlink(missing_ok=True)
        before = set(WORK.iterdir())
        for options in ([], ["--history", str(path)], ["--history", str(path)]):
            t = Terminal("run", MODEL, "-n", "2", *options)
            t.until(b"> ")
            if path.exists():
                t.send(b"\x10\n")  # the line before, of the last chat
                t.until(b"/secret")
                t.until(b"unknown command '/secret'")
            else:
                t.send(b"/secret\n")
                t.until(b"unknown command '/secret'")
            self.assertEqual(t.leave(), 0)
            self.assertEqual(path.exists(), bool(options))
        self.assertIn("/secret", path.read_text().replace("\\057", "/"))
        self.assertEqual(path.stat().st_mode & 0o777, 0o600)
        self.assertEqual(set(WORK.iterdir()) - before, {path})
        t = Terminal("run", MODEL, "--history", str(path), "-p", "x")
        t.until(b"--history without a chat")
        self.assertEqual(t.close(), 2)


class OneShot(unittest.TestCase):
    def test_interrupt_is_130_and_keeps_what_was_said(self):
        p = subprocess.Popen([HASTEN, "run", MODEL, "-p", "x", "--reference", *ENDLESS], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
        said = p.stdout.read(1)
        p.send_signal(signal.SIGINT)
        rest, err = p.communicate(timeout=60)
        self.assertEqual((p.returncode, err), (130, b""))
        self.assertTrue(said + rest)

    def test_interrupt_while_a_file_is_read(self):
        """A model with 300 MB behind it, read into memory: Ctrl-C in the middle ends the opening, with 130."""
        big = WORK / "big.gguf"
        shutil.copy(MODEL, big)
        os.truncate(big, 300 << 20)
        self.addCleanup(big.unlink)
        for _ in range(5):  # on a busy machine the file may be read before the signal comes
            p = subprocess.Popen([HASTEN, "run", str(big), "-p", "x", "--no-mmap", *ENDLESS], stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
            until = time.monotonic() + 60
            # at work: it catches the signal, and has read some of the file (a sanitizer alone takes 40 MB at the start)
            while not (int(re.search(r"SigCgt:\s*(\w+)", Path(f"/proc/{p.pid}/status").read_text())[1], 16) & 1 << signal.SIGINT - 1
                       and int(Path(f"/proc/{p.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") > 40 << 20):
                self.assertIsNone(p.poll())
                self.assertLess(time.monotonic(), until)
            p.send_signal(signal.SIGINT)
            out, err = p.communicate(timeout=60)
            self.assertEqual(p.returncode, 130)
            if not out:
                break
        self.assertRegex(err, rb"^hasten: (reading|opening) .*big.gguf: interrupted\n$")

    def test_interrupted_json(self):
        p = subprocess.Popen([HASTEN, "run", MODEL, "-p", "x", "--json", "--reference", *ENDLESS],
                             stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
        time.sleep(0.4)
        p.send_signal(signal.SIGINT)
        out, _ = p.communicate(timeout=60)
        self.assertEqual(p.returncode, 130)
        self.assertIn(b'"finish_reason":"interrupted"', out)

    def test_eval_is_interrupted(self):
        text = WORK / "text"
        text.write_text("the water is cold and " * 20000)
        p = subprocess.Popen([HASTEN, "eval", MODEL, "--ppl", str(text), "--reference"], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
        time.sleep(0.5)
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=60)
        self.assertEqual((p.returncode, out), (130, b""))
        self.assertIn(b"eval: interrupted after", err)
        self.assertEqual(err.count(b"\n"), 1)

    def test_interrupted_logits_leave_no_part(self):
        """A file of logits is whole or not there; what stood in its place stays."""
        text, out = WORK / "text", WORK / "logits"
        text.write_text("the water is cold and " * 20000)
        for before in (None, b"of another run"):
            out.write_bytes(before) if before else out.unlink(missing_ok=True)
            p = subprocess.Popen([HASTEN, "eval", MODEL, "--ppl", str(text), "--logits", str(out), "--reference"],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
            end = time.monotonic() + 60
            while not (WORK / "logits.part").exists() and time.monotonic() < end:
                time.sleep(0.02)
            p.send_signal(signal.SIGINT)
            p.communicate(timeout=60)
            self.assertEqual(p.returncode, 130)
            self.assertFalse((WORK / "logits.part").exists())
            self.assertEqual(out.read_bytes() if out.exists() else None, before)
        p = subprocess.run([HASTEN, "eval", MODEL, "--ppl", str(text), "--logits", str(out), "--limit-tokens", "9", "-q"],
                           stdout=subprocess.DEVNULL)
        self.assertEqual(p.returncode, 0)
        self.assertEqual(out.stat().st_size % (8 * 4), 0)
        self.assertFalse((WORK / "logits.part").exists())

    def test_progress_only_on_a_terminal(self):
        text = WORK / "text"
        text.write_text("the water is cold and " * 6000)
        t = Terminal("eval", MODEL, "--ppl", str(text), "-c", "64", "--reference")  # slow: progress is due
        t.until(b"s left")
        t.send(b"\x03")
        self.assertEqual(t.close(), 130)
        r = subprocess.run([HASTEN, "eval", MODEL, "--ppl", str(text), "-c", "64", "--reference", "--limit-tokens", "4000"],
                           capture_output=True)
        self.assertEqual((r.returncode, r.stderr), (0, b""))

    def test_closed_stdout(self):
        p = subprocess.Popen([HASTEN, "run", MODEL, "-p", "x", *ENDLESS], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
        p.stdout.read(1)
        p.stdout.close()
        p.wait(timeout=60)
        self.assertIn(p.returncode, (4, -signal.SIGPIPE))
        p.stderr.close()


if __name__ == "__main__":
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    subprocess.run([MAKE_TINY, "llama", "1", MODEL], check=True)
    unittest.main(argv=sys.argv[:1])
