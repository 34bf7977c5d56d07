"""Tables of what programs print when they fail, by what is wrong: the most specific clue first."""
