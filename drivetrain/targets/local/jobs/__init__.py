"""The programs of jobs on this machine: what starts, what it logs, and how it ends."""
