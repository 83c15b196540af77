/* The table of commands. What each takes stands in its cmd_*.c; from both come parser, help, man pages, completions
 * and `hasten config`. */
#include "cli/cli.h"
#include <string.h>

static const struct command commands[] = {
    {"run", "MODEL [-p TEXT | -f FILE | < FILE]", "answer a prompt, or chat in the terminal",
     "Without a prompt on a terminal it is a chat: /help lists its commands, Ctrl-C stops an answer.\n"
     "Without -p and -f, and when stdin is not a terminal, stdin is the prompt.\n"
     "An empty prompt is an error; so is a system prompt that no chat template would hold (--raw).\n"
     "In the JSON, timings.predicted_n counts the token that ended the turn; tokens does not hold it.\n"
     "--turns FILE answers the user messages of a JSON array one after another in one conversation and\n"
     "prints one JSON object per turn (a chat for scripts).\n",
     cmd_run, NULL},
    {"tokenize", "MODEL [--special] [--no-bos] < text", "text to token ids, as a JSON array",
     "Ids are those of the model's reference tokenizer. Where they stand for less than the text (bytes without a\n"
     "token, normalisation), one line on stderr says so; -q silences it.\n",
     cmd_tokenize, NULL},
    {"detokenize", "MODEL [--special] < ids", "token ids (a JSON array) back to bytes", NULL, cmd_detokenize,
     NULL},
    {"template", "MODEL [--add-generation-prompt] [--tools FILE] < messages.json",
     "render the model's chat template on an array of messages", NULL, cmd_template, NULL},
    {"info", "MODEL [--tensors]", "what is in a model file, and the memory it needs", NULL, cmd_info, NULL},
    {"check", "FILE [--no-hash] | --store DIR",
     "read a whole model file, or a snapshot of a sequence, and look for damage",
     "Everything that a file says of itself is checked as any command does when it opens one; then all blocks of all\n"
     "tensors are searched for values that are not finite, and named by tensor, row and block. The SHA-256 of each file\n"
     "is part of the report. Exit status 1: something was found.\n"
     "Of a snapshot (run --prompt-cache, /save FILE.seq) every checksum is looked at; the report says what it was made with.\n",
     cmd_check, NULL},
    {"eval", "MODEL (--ppl FILE | --ids FILE | --task NAME) [--damage] | --compare A.json B.json",
     "perplexity of a text; the damage of methods and settings; tasks",
     "The text is cut into windows of -c tokens, each evaluated from an empty context; every token after the\n"
     "first of a window is scored (with --stride: every token not scored before). -c 0 is 512. --logits writes one\n"
     "row of n_vocab float32 per scored token, in order; with --logits - they go to stdout and the result to\n"
     "stderr.\n"
     "--damage, and any method, runs the plain engine (cache in f16, no methods, no adapters) beside what the options\n"
     "say, on the same windows:\n"
     "mean and 99th-percentile KL, top-1 agreement, flips, largest change of a log-probability, both perplexities,\n"
     "each with a 95 % interval by bootstrap over blocks of tokens. docs/eval.md explains the figures.\n"
     "--task asks the model, greedily, several items at once: gsm8k and humaneval (--data; programs run in a sandbox),\n"
     "needle, recall (facts of a conversation) and ruler (niah_single_1 .. niah_multiquery, vt, cwe, fwe, qa_1, qa_2)\n"
     "of --length tokens, made from a book and --seed. --log FILE keeps each item, and a later run goes on from there.\n"
     "--compare pairs two results of --json; exit status 1 when the second is significantly worse.\n",
     cmd_eval, NULL},
    {"serve", "MODEL [--host ADDRESS] [--port N] [--api-key-file FILE]",
     "a model behind HTTP, as OpenAI's clients speak it",
     "Chat completions, completions, embeddings, tokenize and what routers ask; docs/http.md has the list, every field of\n"
     "a request, and examples. Requests share steps, up to --slots at once; others wait. What a prompt shares with an\n"
     "earlier one of the same key is not computed again; no answer's text depends on its company.\n"
     "It listens on this machine alone; another --host needs --api-key-file or --no-auth. SIGTERM: no new requests, running\n"
     "ones end within --grace; SIGHUP: the keys are read again. Metrics for Prometheus are at /metrics.\n",
     cmd_serve, NULL},
    {"batch", "MODEL [-i FILE] [-o FILE] [--resume]", "answer a file of requests, in OpenAI's batch format",
     "Each line of the input is {\"custom_id\", \"method\", \"url\", \"body\"} for /v1/chat/completions, /v1/completions or\n"
     "/v1/embeddings; each line of the output its answer, in the order of the input: {\"id\", \"custom_id\", \"response\",\n"
     "\"error\"}. A line that is wrong gets an error of its own. --resume goes on behind the answers that -o FILE holds;\n"
     "the file is then that of an undisturbed run: a body without a seed gets one made of its custom_id, created is 0.\n"
     "Exit status 1: some lines have an error.\n",
     cmd_batch, NULL},
    {"embed", "MODEL [-p TEXT | -f FILE | < FILE]", "texts to vectors, one JSON array per line",
     "Each line of FILE or stdin is a text, with -p the whole argument is one. Encoders (BERT) and decoders: of these\n"
     "the last hidden states, behind the final norm. --pooling mean, cls (the first token's vector) or last (the last\n"
     "one's). A text longer than the model reads is an error. With --json each line is an object: index, tokens,\n"
     "embedding.\n",
     cmd_embed, NULL},
    {"decide", "MODEL --menu FILE [-p TEXT | -f FILE | < FILE] [--margin X]",
     "which of several texts fits a text, without generating",
     "The menu is a JSON array of texts, or a text on each line. One JSON object: the best candidate, each one's score\n"
     "and share, and `certain`: whether the best is --margin above the next; exit status 1 when it is not. A scorer is a\n"
     "method of the stage decide (hasten methods pool): scores say what texts are about, not what follows from rules.\n",
     cmd_decide, NULL},
    {"bench",
     "MODEL [-p N] [-n N] [-d N] [-r N] [--batch B,...] [--breakdown] | MODEL --workload NAME | --roofline | --kernels | "
     "--serve URL",
     "speed of prefill and decode, beside the machine's limits; of a server under load",
     "Medians of -r repetitions, with the interval that holds the median (95 % from six repetitions on) and the\n"
     "deviation; bytes and operations moved a second, and their shares of this machine's limits, which are\n"
     "measured before and after (--no-limits: not). --batch 1,4,16 also decodes so many sequences together, each\n"
     "in its own part of the text. With methods (--attend, --cache) the plain engine is measured beside, in turns,\n"
     "and each figure has its ratio to the plain one; the first -d tokens are an announced prompt. --breakdown books one\n"
     "chunk and one token by operation. --workload times whole answers to prompts of a kind, as `run` writes them,\n"
     "greedily: first token, time between tokens, tokens a pass, bytes read a token; --draft and --stop-when are measured\n"
     "so, without a workload on -d and -p tokens of the text, which are continued by -n.\n"
     "\n"
     "--serve asks a server for streamed chat completions, ours or another that speaks OpenAI's API, and notes when each\n"
     "event came: total speed, time to the first token, pauses, what failed and how. --streams: so many users who each\n"
     "wait for their answer; --rate: users who arrive whether the server keeps up or not. Each prompt begins with\n"
     "a line of its own, so that nothing is cached but what --shared-tokens and --turns mean to be. The speed of a\n"
     "level counts the tokens that came while all its users were at work. --workload asks the prompts of that kind.\n",
     cmd_bench, NULL},
    {"quantize", "IN OUT TYPE [--imatrix FILE] [--tensor PATTERN=FORMAT]",
     "write a model in other block formats",
     "TYPE: F32 F16 BF16 Q8_0 Q6_K Q5_0 Q5_1 Q5_K_S Q5_K_M Q4_0 Q4_1 Q4_K_S Q4_K_M Q3_K_S Q3_K_M Q3_K_L Q2_K;\n"
     "Q3_K, Q4_K and Q5_K mean Q3_K_M, Q4_K_M and Q5_K_M. FORMAT of --tensor: F32 F16 BF16 Q8_0 Q6_K Q5_K Q5_0 Q5_1\n"
     "Q4_K Q4_0 Q4_1 Q3_K Q2_K; of several patterns that match a matrix the last wins.\n"
     "Vectors stay F32; below six bits the token embedding and the head get Q6_K. Rows that are no multiple of 256\n"
     "fall back: Q2_K and Q3_K to Q4_0, Q4_K to Q5_0, Q5_K to Q5_1, Q6_K to Q8_0. A matrix that is in its format\n"
     "already is copied bit for bit. OUT appears when it is complete; -v shows each tensor with its relative error.\n",
     cmd_quantize, NULL},
    {"imatrix", "MODEL -f FILE -o OUT", "measure which weights count on a text, for quantize",
     "The text is read in chunks of -c tokens (512), each from an empty context. The file holds, for each matrix, the\n"
     "sums of the squares of its input; llama.cpp reads and writes the same layout.\n",
     cmd_imatrix, NULL},
    {"pull", "NAME|URL|hf:USER/REPO/FILE... [--sha256 HEX]", "fetch models into the cache",
     "NAME: of the built-in table (--list). hf: is the public hub of models, or HF_ENDPOINT; HF_TOKEN goes to it alone;\n"
     "hf:USER/REPO@REVISION/FILE takes another revision than main. All names are checked before the first is fetched.\n"
     "What has come stays when a pull ends early, and the next one goes on. A file gets its name when its hash is\n"
     "right: of the table, of --sha256, or what the hub says; for other URLs nobody says one, and its own is printed\n"
     "with -v. What is in the cache is hashed, not trusted. The cache is HASTEN_CACHE, else XDG_CACHE_HOME/hasten, else\n"
     "~/.cache/hasten. Proxies: http_proxy, https_proxy, no_proxy; certificates: SSL_CERT_FILE.\n",
     cmd_pull, NULL},
    {"list", "[--names]", "what is in the cache",
     "The names are those that `pull` took and every command takes as MODEL.\n", cmd_list, NULL},
    {"rm", "NAME...", "remove models from the cache", NULL, cmd_rm, NULL},
    {"doctor", "", "what this machine can do, and what Hasten makes of it",
     "HASTEN_CPU (plain; avx2 or avx512; on ARM neon) bounds the instructions that any command uses.\n",
     cmd_doctor, NULL},
    {"methods", "[NAME] [--pairs]", "the methods of acceleration, or what one of them is",
     "Each method has a stage, which is also the option that chooses it: --attend quest:budget=0.125. Its guarantee says\n"
     "whether answers stay the same bits, the same law, or differ, and with respect to what.\n",
     cmd_methods, NULL},
    {"tune", "MODEL --workload NAME [--max-kl X] [--budget TIME] [-o FILE]",
     "search what makes answers faster here, and write it as a profile",
     "Methods, their knobs, threads, batches and types of the cache are measured in turns with the plain engine on\n"
     "prompts of the workload, the better half again on more of them, then together. Finalists are judged on prompts\n"
     "that nothing was chosen by: damage (KL at the plain engine's answers) at most --max-kl, with its interval; gain\n"
     "above 1, with its interval. Nothing else is chosen, and each line says why. The profile is for --profile of run,\n"
     "bench and others; its receipt lies with those that `hasten methods NAME` shows. Exit status 1: nothing is shown\n"
     "to be faster, and no profile is written.\n",
     cmd_tune, NULL},
    {"config", "[COMMAND [OPTIONS]]", "every option's value and where it came from",
     "The sources in their order: command line, environment (HASTEN_<OPTION>), profile, default. COMMAND comes first;\n"
     "what follows is read as that command would read it, and the command does not run. Without one: all commands.\n"
     "A profile is YAML: `temp: 0.2`, lists for options that repeat, and a mapping under the name of a command for\n"
     "that command alone. A name that no command knows is refused.\n",
     cmd_config, NULL},
    {"completion", "bash|zsh|fish", "a script that completes commands, options and models in a shell", NULL,
     cmd_completion, NULL},
    {"help", "[COMMAND] [--man [-o FOLDER]] [--json]", "help on a command", NULL, cmd_help, NULL},
};

#define N_COMMANDS ((int)(sizeof commands / sizeof *commands))

const struct command *command_at(int i)
{
    return i >= 0 && i < N_COMMANDS ? &commands[i] : NULL;
}

const struct command *command_find(const char *name)
{
    for (int i = 0; i < N_COMMANDS; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

const struct exit_meaning exit_meanings[] = {
    {0, "done"},
    {1, "it ran and the answer is no: a full context, a number that is not finite, a missed threshold"},
    {2, "usage: an option, a value or a combination is wrong"},
    {3, "a bad, damaged or unsupported file"},
    {4, "not enough memory or disk, found out before starting where it can be"},
    {5, "network, or a peer that does not answer"},
    {130, "interrupted"},
    {0, NULL},
};
