"""`python -m lakesweep` is `lakesweep`."""

from lakesweep.cli.main import main

if __name__ == "__main__":
    main()
