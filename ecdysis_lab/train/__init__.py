"""Rounds of training: settings, arms, gates, the loop."""
