"""History handed out at a pace: events in order, the time between them kept in proportion."""
