"""`python -m notleader` is the command `notleader`."""

from notleader.proxy.__main__ import main

if __name__ == "__main__":
    main()
