"""Triggers on this machine: schedules, and what happens in the local registry and ledger, start local runs."""
