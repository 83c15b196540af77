# What keeps a server from beginning: said before a model is opened.
hasten serve; echo "exit $?"
hasten serve script:hash=1 --host 0.0.0.0; echo "exit $?"
hasten serve script:hash=1 --port 65536; echo "exit $?"
hasten serve script:hash=1 --slots 0; echo "exit $?"
hasten serve script:hash=1 --api-key-file missing.keys; echo "exit $?"
hasten serve script:hash=1 --tls-key x.pem; echo "exit $?"
hasten serve script:hash=1 --admin-listen 9000; echo "exit $?"
hasten serve no-such-model --port 0; echo "exit $?"
