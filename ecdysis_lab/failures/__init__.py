"""From trajectories to failures, their patterns, and the informative quarter."""
