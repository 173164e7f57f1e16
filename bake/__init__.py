"""bake: container images that carry a language model and prove it."""

__version__ = "0.1.0"
