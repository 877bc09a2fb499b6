"""From evidence to a candidate: context, debate, spec, editors."""
