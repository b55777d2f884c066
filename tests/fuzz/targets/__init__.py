"""One module for each target; ``fuzz.judging`` says what is in it."""
