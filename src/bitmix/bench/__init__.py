"""How fast, beside what people use now: every measurement in a process of its own."""
