"""The home of runs: the ledger, the objects, and the events; runs found again, named, stopped and removed."""
