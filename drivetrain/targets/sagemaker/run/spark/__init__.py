"""Jobs of Spark on this machine: what managed images and clusters start runs in `local[*]`, on all cores."""
