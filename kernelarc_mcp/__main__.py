"""`python -m kernelarc_mcp` is the command line."""

from kernelarc_mcp.cli.main import main

if __name__ == "__main__":
    main()
