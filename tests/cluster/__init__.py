"""A Kubernetes cluster on this machine: its programs."""
