"""What runs a bound query: which plan each part has, and the flows that carry it out."""
