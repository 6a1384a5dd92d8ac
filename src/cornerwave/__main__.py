"""`python -m cornerwave` is the command line."""

from cornerwave.cli import main

if __name__ == "__main__":
    main()
