"""What the machine and the operating system give: files that last, frames, clocks, memory,
cores.
"""
