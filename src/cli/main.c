/* The command `hasten`: the table of commands and the dispatch. Everything else lies in cmd_*.c. */
#include "base/mem.h"
#include "cli/cli.h"
#include <jansson.h>
#include <stdio.h>
#include <string.h>

static int cmd_help(const struct command *c, int argc, char **argv);

static const struct command commands[] = {
    {"run", "MODEL [-p TEXT | -f FILE | < FILE]", "answer a prompt, or chat in the terminal",
     "Without a prompt on a terminal it is a chat: /help lists its commands, Ctrl-C stops an answer.\n"
     "Without -p and -f, and when stdin is not a terminal, stdin is the prompt.\n"
     "An empty prompt is an error; so is a system prompt that no chat template would hold (--raw).\n"
     "In the JSON, timings.predicted_n counts the token that ended the turn; tokens does not hold it.\n"
     "--turns FILE answers the user messages of a JSON array one after another in one conversation and\n"
     "prints one JSON object per turn (a chat for scripts).\n",
     cmd_run},
    {"tokenize", "MODEL [--special] [--no-bos] < text", "text to token ids, as a JSON array",
     "Ids are those of the model's reference tokenizer. Where they stand for less than the text (bytes without a\n"
     "token, normalisation), one line on stderr says so; -q silences it.\n",
     cmd_tokenize},
    {"detokenize", "MODEL [--special] < ids", "token ids (a JSON array) back to bytes", NULL, cmd_detokenize},
    {"template", "MODEL [--add-generation-prompt] [--tools FILE] < messages.json",
     "render the model's chat template on an array of messages", NULL, cmd_template},
    {"info", "MODEL [--tensors]", "what is in a model file, and the memory it needs", NULL, cmd_info},
    {"eval", "MODEL (--ppl FILE | --ids FILE) [-c N] [--stride N]", "perplexity of a text; raw logits",
     "The text is cut into windows of -c tokens, each evaluated from an empty context; every token after the\n"
     "first of a window is scored (with --stride: every token not scored before). -c 0 is 512. --logits writes one\n"
     "row of n_vocab float32 per scored token, in order; with --logits - they go to stdout and the result to\n"
     "stderr.\n",
     cmd_eval},
    {"bench", "MODEL [-p N] [-n N] [-d N] [-r N] [--batch B,...] [--profile] | --roofline | --kernels",
     "speed of prefill and decode, beside the machine's limits",
     "Medians of -r repetitions, with the interval that holds the median (95 % from six repetitions on) and the\n"
     "deviation; bytes and operations moved a second, and their shares of this machine's limits, which are\n"
     "measured before and after (--no-limits: not). --batch 1,4,16 also decodes so many sequences together, each\n"
     "in its own part of the text. --profile books one chunk and one token by operation.\n",
     cmd_bench},
    {"quantize", "IN OUT TYPE [--imatrix FILE] [--tensor PATTERN=FORMAT]",
     "write a model in other block formats",
     "TYPE: F32 F16 BF16 Q8_0 Q6_K Q5_0 Q5_1 Q5_K_S Q5_K_M Q4_0 Q4_1 Q4_K_S Q4_K_M Q3_K_S Q3_K_M Q3_K_L Q2_K;\n"
     "Q3_K, Q4_K and Q5_K mean Q3_K_M, Q4_K_M and Q5_K_M. FORMAT of --tensor: F32 F16 BF16 Q8_0 Q6_K Q5_K Q5_0 Q5_1\n"
     "Q4_K Q4_0 Q4_1 Q3_K Q2_K; of several patterns that match a matrix the last wins.\n"
     "Vectors stay F32; below six bits the token embedding and the head get Q6_K. Rows that are no multiple of 256\n"
     "fall back: Q2_K and Q3_K to Q4_0, Q4_K to Q5_0, Q5_K to Q5_1, Q6_K to Q8_0. A matrix that is in its format\n"
     "already is copied bit for bit. OUT appears when it is complete; -v shows each tensor with its relative error.\n",
     cmd_quantize},
    {"imatrix", "MODEL -f FILE -o OUT", "measure which weights count on a text, for quantize",
     "The text is read in chunks of -c tokens (512), each from an empty context. The file holds, for each matrix, the\n"
     "sums of the squares of its input; llama.cpp reads and writes the same layout.\n",
     cmd_imatrix},
    {"pull", "NAME...", "fetch models of the built-in table into the cache",
     "All names are checked before the first is fetched. What is in the cache is hashed, not trusted. The cache\n"
     "is HASTEN_CACHE, else XDG_CACHE_HOME/hasten, else ~/.cache/hasten.\n",
     cmd_pull},
    {"doctor", "", "what this machine can do, and what Hasten makes of it",
     "HASTEN_CPU (plain; avx2 or avx512; on ARM neon) bounds the instructions that any command uses.\n",
     cmd_doctor},
    {"help", "[COMMAND]", "help on a command", NULL, cmd_help},
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

static int usage(FILE *to)
{
    fprintf(to, "usage: hasten COMMAND [OPTIONS]\n\n");
    for (int i = 0; i < N_COMMANDS; i++)
        fprintf(to, "  %-12s %s\n", commands[i].name, commands[i].summary);
    fprintf(
        to,
        "\nhasten help COMMAND lists its options; every option is also HASTEN_<OPTION> in the environment.\n"
        "exit status: 0 done, 1 the answer is no, 2 usage, 3 bad or unsupported file, 4 memory or disk,\n"
        "5 network, 130 interrupted\n");
    return to == stdout ? cli_finish(0) : 2;
}

static int unknown_command(const char *name)
{
    const char *names[N_COMMANDS];
    for (int i = 0; i < N_COMMANDS; i++)
        names[i] = commands[i].name;
    const char *near = nearest_word(name, names, N_COMMANDS);
    struct hasten_error err;
    if (near)
        error_set(&err, HASTEN_ERR_USAGE, "unknown command '%s' (did you mean %s?)", name, near);
    else
        error_set(&err, HASTEN_ERR_USAGE, "unknown command '%s' (hasten help lists the commands)", name);
    return cli_fail(&err);
}

static int cmd_help(const struct command *c, int argc, char **argv)
{
    (void)c;
    if (argc < 1)
        return usage(stdout);
    const struct command *of = command_find(argv[0]);
    if (!of)
        return unknown_command(argv[0]);
    char help[] = "--help", *args[] = {help, NULL};
    return of->run == cmd_help ? usage(stdout) : of->run(of, 1, args);
}

int main(int argc, char **argv)
{
    json_set_alloc_funcs(mem_alloc, mem_free); /* JSON goes through the one door too */
    if (argc < 2)
        return usage(stderr);
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "version") == 0) {
        printf("hasten %s\n", HASTEN_VERSION);
        return cli_finish(0);
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return usage(stdout);
    const struct command *c = command_find(argv[1]);
    if (!c)
        return unknown_command(argv[1]);
    return c->run(c, argc - 2, argv + 2);
}
