"""Measuring: how long to repeat, clocks, energy meters, memory, and the process they run in."""
