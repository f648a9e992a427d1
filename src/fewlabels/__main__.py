"""``python -m fewlabels``: the command line, where its script is not on the path."""

from fewlabels.cli import main

if __name__ == "__main__":
    main()
