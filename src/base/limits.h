/* The table of limits: every bound that input can run into, in one place, each tested on both sides. */
#ifndef HASTEN_BASE_LIMITS_H
#define HASTEN_BASE_LIMITS_H

/* GGUF */
#define LIMIT_GGUF_KEY_BYTES 65535          /* length of a key (the format's own bound) */
#define LIMIT_GGUF_STRING_BYTES (64u << 20) /* length of one string value */
#define LIMIT_GGUF_KEYS 65536               /* key-value pairs in a file */
#define LIMIT_GGUF_TENSORS 65536            /* tensors in a file */
#define LIMIT_GGUF_ARRAY (16u << 20)        /* elements of one array */
#define LIMIT_GGUF_ARRAY_DEPTH 4            /* arrays of arrays */
#define LIMIT_GGUF_NAME_BYTES 256           /* length of a tensor's name */
#define LIMIT_GGUF_HEADER_BYTES (80u << 20) /* keys and tensor records together */
#define LIMIT_GGUF_PROBES 1024              /* names that collide in the hash table */
#define LIMIT_GGUF_SHARDS 4096              /* files of a split model */
#define LIMIT_GGUF_DIM (1ll << 40)          /* one dimension of a tensor */

/* safetensors */
#define LIMIT_ST_TENSORS (1 << 18) /* tensors in a file, and in a folder of them */
#define LIMIT_ST_DIMS 8            /* dimensions of a tensor */
#define LIMIT_ST_SHARDS 4096       /* files that an index names */

/* Models */
#define LIMIT_LAYERS 1024
#define LIMIT_WIDTH (1 << 20) /* d_model, d_ff, heads × head size */
#define LIMIT_HEADS 4096
#define LIMIT_EXPERTS 4096
#define LIMIT_EXPERTS_USED 64 /* of a row, in a layer */
#define LIMIT_VOCAB (4 << 20)
#define LIMIT_CONTEXT (1 << 24)
#define LIMIT_BATCH_ROWS 4096 /* rows of one step */
#define LIMIT_THREADS 512
#define LIMIT_BATCH_BYTES (256u << 20) /* a file of requests, of answers */
#define LIMIT_QUEUE (1 << 20)          /* jobs that wait for a slot */
#define LIMIT_OWNERS (1 << 12)         /* owners of jobs whose share is remembered while they have none */
#define LIMIT_LORA_RANK 4096           /* of an adapter's matrix */
#define LIMIT_LORAS 64                 /* adapters of an engine */

/* Text */
#define LIMIT_TEXT_BYTES (256u << 20)  /* one text to tokenize */
#define LIMIT_TOKEN_BYTES 4096         /* one vocabulary entry */
#define LIMIT_TOKEN_PROBES 4096        /* collisions of one entry in the vocabulary's tables */
#define LIMIT_SCRIPT_BYTES (16u << 20) /* rules of a scripted model */
#define LIMIT_SCRIPT_ITEMS (1 << 16)   /* tokens of one of their lists */
#define LIMIT_STOP_STRINGS 64
#define LIMIT_STOP_BYTES 1024
#define LIMIT_TEMPLATE_BYTES (1u << 20)         /* source of a chat template */
#define LIMIT_TEMPLATE_DEPTH 128                /* nesting of blocks and expressions */
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION /* the same refusals, a hundred times sooner */
#define LIMIT_TEMPLATE_STEPS 40000
#define LIMIT_TEMPLATE_OUTPUT (1u << 20)
#define LIMIT_TEMPLATE_MEMORY (4u << 20)
#else
#define LIMIT_TEMPLATE_STEPS 4000000       /* nodes evaluated in one rendering */
#define LIMIT_TEMPLATE_OUTPUT (64u << 20)  /* bytes rendered */
#define LIMIT_TEMPLATE_MEMORY (256u << 20) /* bytes of values alive in one rendering */
#endif
#define LIMIT_JSON_DEPTH 128 /* nesting of a JSON document from outside */
#define LIMIT_JSON_BYTES (64u << 20)

/* Snapshots of sequences */
#define LIMIT_SNAPSHOT_TEXT (1 << 20) /* their label, what they say they were made by */

/* Grammars */
#define LIMIT_GRAMMAR_BYTES (1 << 20)  /* text of one */
#define LIMIT_GRAMMAR_RULES (1 << 14)  /* names in it */
#define LIMIT_GRAMMAR_NODES (1 << 18)  /* texts, classes, groups and repetitions in it */
#define LIMIT_GRAMMAR_DEPTH 128        /* groups inside each other; repetitions of repetitions */
#define LIMIT_GRAMMAR_REPEAT 10000     /* a bound of {m,n} */
#define LIMIT_GRAMMAR_TOKENS 11        /* tokens by name or number */
#define LIMIT_GRAMMAR_STEPS (1 << 20)  /* what it says, repetitions written out */
#define LIMIT_GRAMMAR_PLACES (1 << 18) /* places of a parse between two bytes */
#define LIMIT_GRAMMAR_EDGES (4 << 20)  /* steps from one to another */
#define LIMIT_REGEX_BYTES (64 << 10)   /* a regular expression */
#define LIMIT_REGEX_NODES (1 << 15)    /* characters, groups and repetitions in it */
#define LIMIT_REGEX_DEPTH 24           /* groups inside each other */
#define LIMIT_REGEX_RULES (1 << 12)   /* where its texts are counted: steps, and rules for steps and counts */
#define LIMIT_REGEX_PAIRS (1 << 20)   /* steps times counts */
#define LIMIT_SCHEMA_RULES (1 << 12)  /* schemas in a JSON Schema, those that allOf makes among them */
#define LIMIT_SCHEMA_MERGES (1 << 14) /* schemas merged into others */
#define LIMIT_SCHEMA_MADE (16u << 20) /* bytes of merged schemas */
#define LIMIT_SCHEMA_PLACE 1024       /* bytes of a JSON pointer in messages */
#define LIMIT_TOOLS 512               /* offered in one request */
#define LIMIT_TOOL_NAME 128           /* bytes of a tool's name */
#define LIMIT_GRAMMAR_MEMORY (256ll << 20) /* bytes of remembered parses and masks, for one grammar */

/* Load tests */
#define LIMIT_SSE_BYTES (1 << 20)     /* an event of a stream */
#define LIMIT_LOAD_STREAMS 4096       /* requests that run at once */
#define LIMIT_LOAD_REQUESTS (1 << 22) /* of one level */

/* The server */
#define LIMIT_SERVE_BODY (16u << 20)    /* bytes of one request, unless --max-body says otherwise */
#define LIMIT_SERVE_BODIES (512u << 20) /* bytes of all requests under way */
#define LIMIT_SERVE_HEADER (16u << 10)  /* bytes of a request's line and header */
#define LIMIT_SERVE_UNREAD (4u << 20)   /* bytes of a stream that its client has not taken */
#define LIMIT_SERVE_CHOICES 128         /* answers of one request: prompts times n */
#define LIMIT_SERVE_QUEUE 65536         /* requests that wait */
#define LIMIT_SERVE_SLOTS 1024          /* sequences that are answered at once */
#define LIMIT_SERVE_KEYS 4096           /* API keys */
#define LIMIT_SERVE_KEY_BYTES 256       /* of one */
#define LIMIT_SERVE_WARNINGS 16         /* of one answer */
#define LIMIT_SERVE_GRAMMARS 32         /* compiled grammars kept */
#define LIMIT_SERVE_INPUTS 2048         /* texts of one request for embeddings */

/* The command */
#define LIMIT_PROFILE_BYTES (1u << 20) /* a YAML file of options */
#define LIMIT_PROFILE_LINES 1024       /* options in it */

#endif
