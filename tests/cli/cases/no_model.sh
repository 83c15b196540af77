hasten run -p x
echo $?
hasten tokenize </dev/null
echo $?
hasten info
