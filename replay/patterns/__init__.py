"""Row patterns: what every match contains."""
