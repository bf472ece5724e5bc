"""The documentation, and the program that writes the pages which follow from the code."""
