"""`python -m pqrlearn` is the command `pqr`."""

from pqrlearn.cli import main

if __name__ == "__main__":
    main()
