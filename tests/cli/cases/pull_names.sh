# Names of sources: what is taken and what is not, before any network.
for name in hf: hf:user hf:user/repo hf:user/../file 'hf:user/repo/a\b' ftp://host/file file:///etc/passwd https:// \
    http://host/ http://host/a/../b http://host/%2e%2e http://me:pw@host/x 'http://host/a b' http://host/a.part smolm2; do
    hasten pull "$name"
    echo $?
done
hasten pull http://host/x --sha256 12
hasten pull hf:a/b/c http://host/x --sha256 $(printf '%064d' 0)
hasten pull hf:a/b/c --timeout 10
hasten pull hf:a/b/c --timeout 0s
hasten run hf:user/repo/model.gguf -p x
hasten run https://host/model.gguf -p x
hasten list
hasten rm
hasten rm smollm2
hasten rm /etc/passwd
echo $?
