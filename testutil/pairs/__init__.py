"""Pairs of features: random histories of one job, in which two optional features meet, judged by what each of them promises."""
