"""Operations on pipelines and runs, for the command line and for notebooks alike: they print nothing."""
