# No command: usage on stderr, exit 2, nothing on stdout.
hasten
