"""Tools next to the operating system: durable files, sockets and frames, clocks, memory and cores,
the meter, and plug-ins.
"""
