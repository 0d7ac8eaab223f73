"""What the groups of a fit are like: their representatives, and rows that are unlike all groups."""
