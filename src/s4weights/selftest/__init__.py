"""Whether every engine of this machine gives back every byte."""
