"""The command line: one file a group of commands, each imported when it is used."""
