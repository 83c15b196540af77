hasten pull; echo $?
hasten pull nothing; echo $?
HASTEN_CACHE= XDG_CACHE_HOME= HOME= hasten pull smollm2; echo $?
# An index that does not answer: one sentence, exit 5, nothing left in its place.
PIP_INDEX_URL=http://127.0.0.1:9/ PIP_NO_INDEX=1 PIP_CONFIG_FILE=/dev/null hasten pull smollm2; echo $?
ls $HASTEN_CACHE/models
