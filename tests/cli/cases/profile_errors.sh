# What is no profile, and names that nobody knows. 3: the file; 2: what it says.
try() {
    printf "%b" "$1" >p.yaml
    hasten run $TINY/llama.gguf -p x --profile p.yaml
    echo $?
}
try 'tempp: 1\n'
try 'rnu:\n  temp: 1\n'
try 'quantize:\n  temp: 1\n'
try 'nothing-like-it-at-all: 1\n'
try 'temp: -1\n'
try 'seed: 1\ntemp: warm\n'
try 'cache-type: f61\n'
try 'temp: 1\nTEMP: 1\n'
try 'temp: 1\ntemp: 2\n'
try 'temp: [1\n'
try 'temp: &a 1\n'
try 'temp: *a\n'
try 'temp: !!int 1\n'
try 'temp:\n'
try 'temp: ~\n'
try 'prompt: "a\\0b"\n'
try 'stop: [a, [b]]\n'
try 'temp: [1, 2]\n'
try 'run:\n  temp: {a: b}\n'
try '- temp\n'
try 'temp: 1\n---\ntemp: 2\n'
try 'temp: \0377\n'
try 'help: yes\n'
try 'profile: other.yaml\n'
printf 'prompt: a\nfile: b\n' >p.yaml
hasten config run --profile p.yaml
echo $?
hasten run $TINY/llama.gguf -p x --profile missing.yaml
echo $?
hasten run $TINY/llama.gguf -p x --profile .
echo $?
