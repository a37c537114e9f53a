"""Commands about runs that were started: found, shown, compared, answered, removed."""
