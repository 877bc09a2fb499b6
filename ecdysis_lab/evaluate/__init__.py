"""What training was worth: trials of frozen harnesses, scores, comparisons, and the accommodation ratio."""
