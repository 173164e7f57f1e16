"""Words: what can be said to an image, one module a family. Each word is a function of the words that follow it."""
