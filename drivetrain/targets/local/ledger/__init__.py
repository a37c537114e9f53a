"""What was run, in SQLite: one writer, any number of readers, no secret."""
