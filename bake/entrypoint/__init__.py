"""What runs inside the image: verify the model, then start verl. Standard library only, Python 3.10 up."""
