"""python -m bake."""

from bake.cli import main

if __name__ == "__main__":
    main()
