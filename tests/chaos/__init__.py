"""Faults at random moments on a real control plane, many times over: `scripts/chaos --help`."""
