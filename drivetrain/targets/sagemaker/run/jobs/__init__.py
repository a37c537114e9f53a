"""Jobs on this machine: what they are asked to do, their data, their programs, and how they end."""
